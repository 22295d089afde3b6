// Looks at the pages in the frames of this page, after they were laid out, and lists the faults.
addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(measure);
  const text = JSON.stringify(found).replace(/[<>&]/g, (sign) => "\\u00" + sign.charCodeAt(0).toString(16));
  document.getElementById("found").textContent = text;
});

function measure(frame) {
  const page = frame.contentDocument;
  const width = frame.clientWidth;
  const wrong = [];
  for (const details of page.querySelectorAll("details")) details.open = true;
  const lines = [...page.querySelectorAll("svg")].map((svg) => plot(svg, wrong));
  const texts = words(page, width, wrong);
  for (const axis of page.querySelectorAll(".up, .across")) apart(axis, wrong);
  for (const element of page.querySelectorAll("*")) {
    const scrolls = /auto|scroll|hidden/.test(getComputedStyle(element).overflowX);
    if (scrolls && element.scrollWidth > element.clientWidth + 1) wrong.push(`${named(element)} has to be scrolled`);
  }
  if (page.documentElement.scrollWidth > width) wrong.push("the page is wider than its window");
  const asked = frame.contentWindow.performance.getEntriesByType("resource").map((entry) => entry.name);
  return { width, lines, texts, wrong, asked };
}

function named(element) {
  return `<${element.localName} class=${element.getAttribute("class")}> ${element.textContent.slice(0, 40)}`;
}

function within(inner, outer, slack) {
  return inner.left >= outer.left - slack && inner.right <= outer.right + slack
    && inner.top >= outer.top - slack && inner.bottom <= outer.bottom + slack;
}

// How many lines a plot has.
function plot(svg, wrong) {
  const box = svg.getBoundingClientRect();
  const panel = svg.closest("figure").getBoundingClientRect();
  if (box.width < 150 || box.height < 80) wrong.push(`a plot of ${box.width} x ${box.height}`);
  if (!within(box, panel, 0)) wrong.push("a plot leaves its panel");
  const lines = [...svg.querySelectorAll(".line")].filter((line) => line.getAttribute("d") !== "");
  for (const line of lines) {
    const drawn = line.getBoundingClientRect();
    const style = getComputedStyle(line);
    const dot = line.getAttribute("d").endsWith("h0");
    if (!within(drawn, box, 3)) wrong.push(`a line leaves its plot: ${line.getAttribute("class")}`);
    if (!dot && drawn.width < 1) wrong.push(`a line without size: ${line.getAttribute("class")}`);
    if (style.stroke === "none" || parseFloat(style.strokeWidth) < 1) wrong.push("a line that is not seen");
  }
  return lines.length;
}

// How many texts are seen.
function words(page, width, wrong) {
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  let count = 0;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const range = page.createRange();
    range.selectNodeContents(node);
    const places = [...range.getClientRects()].filter((place) => place.width > 0);
    if (!node.data.trim() || places.length === 0) continue;
    count += 1;
    let block = node.parentElement;
    while (getComputedStyle(block).display === "inline") block = block.parentElement;
    const tick = block.closest(".up, .across");
    const box = (tick ? tick.closest("figure") : block).getBoundingClientRect();
    const fits = (place) => place.left >= -0.5 && place.right <= width + 0.5
      && place.left >= box.left - 1 && place.right <= box.right + 1;
    if (!places.every(fits)) wrong.push(`text leaves its place: ${named(block)}`);
    const ratio = contrast(node.parentElement);
    if (ratio < 4.5) wrong.push(`a contrast of ${ratio.toFixed(2)}: ${named(node.parentElement)}`);
  }
  return count;
}

// The names of ticks do not cover one another.
function apart(axis, wrong) {
  const places = [...axis.children].map((tick) => tick.getBoundingClientRect());
  for (let one = 0; one < places.length; one += 1) {
    for (let two = one + 1; two < places.length; two += 1) {
      const [a, b] = [places[one], places[two]];
      const cover = a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
      if (cover) wrong.push(`ticks cover one another: ${named(axis)}`);
    }
  }
}

// The contrast of a text with its background, as WCAG 2 counts.
function contrast(element) {
  let behind = element;
  while (behind && getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
  const light = [getComputedStyle(element).color, behind ? getComputedStyle(behind).backgroundColor : "rgb(255, 255, 255)"]
    .map((colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number).map((part) => part / 255)
      .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .map(([red, green, blue]) => 0.2126 * red + 0.7152 * green + 0.0722 * blue)
    .sort((a, b) => b - a);
  return (light[0] + 0.05) / (light[1] + 0.05);
}

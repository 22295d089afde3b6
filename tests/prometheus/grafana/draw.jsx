// Draws the panels of the dashboard with Grafana's own components, from the answers of Prometheus to their queries.

import {
  createDataFrame,
  createTheme,
  dateTime,
  EventBusSrv,
  FieldColorModeId,
  FieldType,
  getDisplayProcessor,
  ThemeContext,
} from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { GlobalStyles, PanelContextProvider, TimeSeries } from '@grafana/ui';
import { createRoot } from 'react-dom/client';

const WIDTH = 720;
const HEIGHT = 230;
// Axes, grid and texts are grey. The channels of a line's colour differ by more than this.
const GREY = 60;
const theme = createTheme({ colors: { mode: 'light' } });

function legend(format, labels) {
  return format.replace(/{{(\w+)}}/g, (_, label) => labels[label] ?? '');
}

// A quantile of no observations is NaN: a gap in the line.
function number(text) {
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}

// One series as Grafana's source of Prometheus hands it to a panel.
function frame({ name, values }, index, defaults) {
  const times = { name: 'Time', type: FieldType.time, config: {}, values: values.map(([time]) => time * 1000) };
  const config = { ...defaults, displayName: name, color: { mode: FieldColorModeId.PaletteClassic } };
  const numbers = { name, type: FieldType.number, config, values: values.map(([, value]) => number(value)) };
  const made = createDataFrame({ refId: name, fields: [times, numbers] });
  made.fields.forEach((field, fieldIndex) => {
    field.state = { seriesIndex: index, origin: { frameIndex: index, fieldIndex } };
    field.display = getDisplayProcessor({ field, theme });
  });
  return made;
}

function Panel({ panel, range }) {
  const series = panel.targets.flatMap(({ legendFormat, result }) =>
    result.map(({ metric, values }) => ({ name: legend(legendFormat, metric), values }))
  );
  const frames = series.map((one, index) => frame(one, index, panel.fieldConfig.defaults));
  const plot = (
    <TimeSeries
      frames={frames}
      structureRev={1}
      timeRange={range}
      timeZone="utc"
      width={WIDTH}
      height={HEIGHT}
      legend={{ showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] }}
    />
  );
  return (
    <figure data-title={panel.title}>
      <figcaption>{panel.title}</figcaption>
      <div style={{ position: 'relative', width: WIDTH, height: HEIGHT }}>{frames.length > 0 ? plot : 'No data'}</div>
    </figure>
  );
}

function colours(canvas) {
  if (canvas === null) {
    return 0;
  }
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const found = new Set();
  for (let at = 0; at < data.length; at += 4) {
    const channels = [data[at], data[at + 1], data[at + 2]];
    const opaque = data[at + 3] > 200;
    if (opaque && Math.max(...channels) - Math.min(...channels) > GREY) {
      found.add(channels.join());
    }
  }
  return found.size;
}

// Reports the drawn panels to the test.
function report() {
  const drawn = [...document.querySelectorAll('figure')].map((figure) => ({
    title: figure.dataset.title,
    colours: colours(figure.querySelector('canvas')),
    text: figure.innerText,
  }));
  const found = document.createElement('pre');
  found.id = 'found';
  found.hidden = true;
  found.textContent = JSON.stringify(drawn);
  document.body.append(found);
}

async function draw() {
  await initPluginTranslations('grafana', []);
  const { panels, from, to } = window.DASHBOARD;
  const range = { from: dateTime(from * 1000), to: dateTime(to * 1000) };
  const context = { eventBus: new EventBusSrv(), eventsScope: 'dashboard', sync: () => 0 };
  createRoot(document.getElementById('dashboard')).render(
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <PanelContextProvider value={context}>
        {panels.map((panel) => (
          <Panel key={panel.id} panel={panel} range={{ ...range, raw: range }} />
        ))}
      </PanelContextProvider>
    </ThemeContext.Provider>
  );
  // In the browser's virtual time, which waits for panels that are still to be drawn.
  setTimeout(report, 3000);
}

draw();

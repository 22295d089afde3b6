//! LISTs in pages and at versions, and watches that expire or send bookmarks, on any collection.

use serde_json::{Value, json};

use super::wire::{JSON, send, watch, watch_and};

/// Everything that lists and watches of one collection answer. `body` makes an object of its kind by name.
pub async fn answers(client: &kube::Client, collection: &str, body: impl Fn(&str) -> Value) -> Vec<String> {
    let labelled = |name: &str| {
        let mut object = body(name);
        object["metadata"]["labels"] = json!({ "page": "1" });
        object
    };
    let mut lines = Vec::new();
    for number in 0..5 {
        create(client, collection, &labelled(&format!("p{number}"))).await;
    }
    for limit in [1, 2, 4, 5, 9] {
        lines.push(format!("pages of {limit}: {}", pages(client, collection, limit).await.join(" | ")));
    }
    lines.push(format!("a list goes on: {}", continued(client, collection, &labelled("p9")).await));
    for query in [
        "continue=nonsense",
        "resourceVersion=nonsense",
        "limit=nonsense",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact",
        "resourceVersion=0&limit=2",
    ] {
        let (code, list) = get(client, &format!("{collection}?labelSelector=page&{query}")).await;
        lines.push(format!("LIST {query}: {code} {} {:?}", list["reason"], names(&list)));
    }
    // The server still keeps all versions of kinds that it knew from its start.
    if !collection.contains(".k8s.io/v1/") && !collection.starts_with("/api/") {
        lines.push(format!("an old version: {}", expired(client, collection).await));
    }
    let bookmarks = bookmarks(client, collection, &labelled).await;
    lines.push(format!("a watch with bookmarks: {}", bookmarks.join(" ")));
    lines.push(format!("a watch from the state: {}", initial(client, collection).await.join(" ")));
    lines
}

async fn get(client: &kube::Client, path: &str) -> (u16, Value) {
    send(client, "GET", path, JSON, None).await
}

async fn create(client: &kube::Client, collection: &str, object: &Value) {
    let (code, answer) = send(client, "POST", collection, JSON, Some(object)).await;
    assert_eq!(code, 201, "{answer}");
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

/// All pages of a list: the names on each, and how many are said to remain.
async fn pages(client: &kube::Client, collection: &str, limit: usize) -> Vec<String> {
    let (mut pages, mut token, mut version) = (Vec::new(), String::new(), Value::Null);
    loop {
        let path = format!("{collection}?labelSelector=page&limit={limit}&continue={token}");
        let (code, list) = get(client, &path).await;
        let metadata = &list["metadata"];
        let same = version.is_null() || version == metadata["resourceVersion"];
        pages.push(format!("{code} {:?} {} {same}", names(&list), metadata["remainingItemCount"]));
        version = metadata["resourceVersion"].clone();
        let next = metadata["continue"].as_str().unwrap_or("");
        if next.is_empty() || pages.len() > 9 {
            return pages;
        }
        token = encode(next);
    }
}

/// The second page of a list of which an object was deleted and another created after the first page.
async fn continued(client: &kube::Client, collection: &str, late: &Value) -> String {
    let (_, first) = get(client, &format!("{collection}?labelSelector=page&limit=2")).await;
    let options = json!({ "gracePeriodSeconds": 0 });
    send(client, "DELETE", &format!("{collection}/p3"), JSON, Some(&options)).await;
    create(client, collection, late).await;
    let token = encode(first["metadata"]["continue"].as_str().unwrap());
    let (code, second) = get(client, &format!("{collection}?labelSelector=page&continue={token}")).await;
    let same = first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"];
    format!("{code} {:?} then {:?}, of one version: {same}", names(&first), names(&second))
}

/// The answer to a watch from a version that the server no longer keeps.
async fn expired(client: &kube::Client, collection: &str) -> String {
    let path = format!("{collection}?watch=true&resourceVersion=1&timeoutSeconds=5");
    let events = watch(client, &path, |_| false).await;
    let described = |event: &Value| {
        let object = &event["object"];
        let message = object["message"].as_str().unwrap_or("").split(':').next().unwrap_or("").to_owned();
        format!("{} {} {} {message}", event["type"], object["code"], object["reason"])
    };
    events.iter().map(described).collect::<Vec<_>>().join(" | ")
}

/// Watches that end in time, with one event each. A bookmark comes shortly before the end, if it is allowed.
async fn bookmarks(client: &kube::Client, collection: &str, body: &impl Fn(&str) -> Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (allowed, name) in [(false, "p7"), (true, "p8")] {
        let (_, list) = get(client, collection).await;
        let version = list["metadata"]["resourceVersion"].as_str().unwrap();
        let path = format!(
            "{collection}?watch=true&resourceVersion={version}&timeoutSeconds=5&allowWatchBookmarks={allowed}"
        );
        // The real server sends no bookmark unless something has happened since the watch began.
        let happens = async {
            create(client, collection, &body(name)).await;
        };
        let events = watch_and(client, &path, |_| false, happens).await;
        let above = version.parse().unwrap();
        let mut faces: Vec<String> = events.iter().map(|event| face(event, above)).collect();
        // Of bookmarks in a row the server promises one.
        faces.dedup();
        lines.push(format!("{allowed}: {faces:?}"));
    }
    lines
}

/// A watch that begins with the state and says where the state ends.
async fn initial(client: &kube::Client, collection: &str) -> Vec<String> {
    let path = format!(
        "{collection}?watch=true&labelSelector=page&allowWatchBookmarks=true&sendInitialEvents=true\
         &resourceVersionMatch=NotOlderThan&timeoutSeconds=2"
    );
    let events = watch(client, &path, |_| false).await;
    let mut faces: Vec<String> = events.iter().map(|event| face(event, 0)).collect();
    // Another bookmark may follow, before the end of the watch.
    let bookmark = faces.iter().position(|event| event.contains("BOOKMARK"));
    faces.truncate(bookmark.map_or(faces.len(), |bookmark| bookmark + 1));
    // The state comes in no order.
    let state = faces.iter().take_while(|event| event.contains("ADDED")).count();
    faces[..state].sort();
    faces
}

fn face(event: &Value, above: u64) -> String {
    let (object, metadata) = (&event["object"], &event["object"]["metadata"]);
    let version: u64 = metadata["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
    let ends = &metadata["annotations"]["k8s.io/initial-events-end"];
    let (kind, name) = (&object["kind"], &metadata["name"]);
    format!("{} {kind} {name} {ends} recent {}", event["type"].as_str().unwrap_or(""), version > above)
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

//! How many requests a second the simulation answers: `cargo run --release -p framework-sim --example speed`.

use std::time::{Duration, Instant};

use framework_sim::{Options, Rates, run};
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

fn pod(n: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("p{n}"), "labels": { "slot": "7" }, "annotations": { "sim/run-ms": "50" },
        },
        "spec": { "containers": [{ "name": "main", "image": "x" }], "restartPolicy": "Never" },
    })
}

async fn send(client: &kube::Client, method: &str, path: &str, body: &Value) -> u16 {
    let request = Request::builder().method(method).uri(path).body(Body::from(body.to_string().into_bytes()));
    let response = client.send(request.expect("the request is well formed")).await.expect("no faults are on");
    let code = response.status().as_u16();
    response.into_body().collect_bytes().await.expect("the body is whole");
    code
}

fn main() {
    const RUNS: u64 = 20;
    const PODS: usize = 1_000;
    for (name, rates) in [("no latency", Rates::none()), ("calm", Rates::calm())] {
        let options = Options { rates, keep_trace: false, ..Options::default() };
        let begun = Instant::now();
        let one = |seed| {
            run(seed, options.clone(), |cluster| async move {
                let client = cluster.client("speed");
                let watch = Request::get("/api/v1/pods?watch=1&resourceVersion=0").body(Vec::new());
                let lines =
                    client.request_stream(watch.expect("well formed")).await.expect("no faults are on");
                for n in 0..PODS {
                    send(&client, "POST", "/api/v1/namespaces/default/pods", &pod(n)).await;
                    if n >= 100 {
                        let path = format!("/api/v1/namespaces/default/pods/p{}", n - 100);
                        send(&client, "DELETE", &path, &json!({})).await;
                    }
                }
                cluster.settle(Duration::from_secs(5), Duration::from_secs(600)).await;
                drop(lines);
                cluster.history().changes.len()
            })
        };
        let changes: usize = (0..RUNS).map(one).sum();
        let took = begun.elapsed().as_secs_f64();
        let requests = f64::from(u32::try_from(2 * PODS).unwrap_or(u32::MAX)) * RUNS as f64;
        println!("{name}: {:.0} requests/s, {changes} changes, {took:.2} s", requests / took);
    }
}

//! The selection of slots by the API server itself: `shardSelector`, alpha in Kubernetes 1.36 (KEP-5866).
//!
//! The controller does not use it. The test holds that it could: a slot is a range of Kubernetes' own hash.

use framework_api::name::slot;
use framework_loadtest::namespace::Namespace;
use framework_loadtest::selector_cost::{Selection, shares};
use framework_testcluster::{Cluster, Options};
use kube::ResourceExt;
use kube::api::PostParams;
use kube::core::{DynamicObject, ObjectList};
use serde_json::json;

const REPLICAS: u8 = 3;
const FRAMEWORKS: usize = 48;

#[test]
fn a_slot_is_a_range_of_the_hash_that_kubernetes_shards_by() {
    let cluster = Cluster::start(Options {
        nodes: 0,
        feature_gates: vec!["ShardedListAndWatch".into()],
        kubectl: false,
        ..Options::default()
    });
    let cluster = cluster.unwrap();
    cluster.install(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/crds").as_ref()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let namespace = Namespace { client: cluster.client(), name: "default".into() };
        namespace.served().await.unwrap();
        let mut all = Vec::new();
        for number in 0..FRAMEWORKS {
            let framework = json!({
                "apiVersion": "frameworkcontroller.microsoft.com/v1", "kind": "Framework",
                "metadata": {"name": format!("f{number}")},
                "spec": {"executionType": "Create", "taskRoles": []},
            });
            let framework: DynamicObject = serde_json::from_value(framework).unwrap();
            all.push(namespace.frameworks().create(&PostParams::default(), &framework).await.unwrap());
        }
        for slots in shares(REPLICAS) {
            let path = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks";
            let request = http::Request::get(format!("{path}?{}", Selection::Shards.query(&slots)));
            let listed: ObjectList<DynamicObject> =
                namespace.client.request(request.body(Vec::new()).unwrap()).await.unwrap();
            let mut found: Vec<_> = listed.items.iter().map(ResourceExt::uid).collect();
            let ours = |object: &&DynamicObject| slots.contains(&slot(&object.uid().unwrap()));
            let mut expected: Vec<_> = all.iter().filter(ours).map(ResourceExt::uid).collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert!(!expected.is_empty(), "chance gave {REPLICAS} replicas no Framework of {FRAMEWORKS}");
            assert_eq!(found, expected, "the slots {slots:?}");
        }
    });
}

//! The completion codes of objects that are created and never appear in the controller's cache: its watch is
//! held back for longer than the time-out.

use crate::cluster::lease::{Alone, namespace};
use crate::cluster::{assert_nothing_is_left, code, completed, manifest, wait};
use crate::disturbance::Controller;

/// The shortest time-out that the config file may have.
const TIMEOUT: &str = "objectLocalCacheCreationTimeoutSec: 60";

#[test]
fn objects_that_the_watch_never_shows_end_as_110_and_111() {
    let _alone = Alone::wait();
    let ns = namespace("caches");
    let controller = Controller::start(TIMEOUT);
    controller.relay.hold(&["pods"]);
    manifest("nopod").role("a", 1, &[]).create(&ns);
    wait(&ns, "nopod", "waiting for its Pod", |framework| {
        let tasks = framework.status.iter().flat_map(|status| status.all_tasks());
        tasks.filter(|task| task.attempt_status.pod_uid.is_some()).count() == 1
    });
    controller.relay.hold(&["configmaps"]);
    manifest("noconfigmap").role("a", 1, &[]).create(&ns);

    wait(&ns, "noconfigmap", "given up", |framework| {
        let end =
            framework.status.as_ref().and_then(|status| status.attempt_status.completion_status.as_ref());
        end.is_some()
    });
    wait(&ns, "nopod", "without its Pod", |framework| {
        let tasks = framework.status.iter().flat_map(|status| status.all_tasks());
        let ends = tasks.filter_map(|task| task.attempt_status.completion_status.as_deref());
        ends.map(|end| end.code).eq([-111])
    });
    // Both ConfigMaps are deleted, and only the watch shows that they are gone.
    controller.relay.release();
    let gone = (-110, "ConfigMapLocalCacheCreationTimeout".to_owned());
    assert_eq!(code(&completed(&ns, "noconfigmap")), gone);
    assert_eq!(code(&completed(&ns, "nopod")), (-111, "PodLocalCacheCreationTimeout".to_owned()));
    for name in ["nopod", "noconfigmap"] {
        assert_nothing_is_left(&ns, name);
    }
}

//! Frameworks that completed at a chosen time, as the controller would have left them.

use framework_api::{Framework, FrameworkStatus, Time};
use framework_core::classify::Classifier;
use framework_core::observed::Objects;
use framework_core::{Moment, Observed, Policy, sync};
use serde_json::json;

/// The status of a Framework without Tasks that succeeded at that time: there is nothing left to write.
pub fn finished(framework: &Framework, at: Time) -> FrameworkStatus {
    let name = framework.metadata.name.as_deref().expect("it has a name");
    let status = json!({
        "startTime": at, "runTime": null, "completionTime": at, "state": "Completed", "transitionTime": at,
        "retryPolicyStatus": { "totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": null },
        "attemptStatus": {
            "id": 0, "startTime": at, "runTime": null, "completionTime": at,
            "instanceUID": "0_3f9a2c51-6a0e-8d14-9b67-000000000000",
            "configMapName": format!("{name}-attempt"),
            "configMapUID": "3f9a2c51-6a0e-8d14-9b67-000000000000",
            "completionStatus": {
                "code": 0, "phrase": "Succeeded", "type": { "name": "Succeeded", "attributes": [] },
                "diagnostics": "",
            },
            "taskRoleStatuses": [],
        },
    });
    let status: FrameworkStatus = serde_json::from_value(status).expect("a status");
    // The controller's own summary.
    let objects = Objects::default();
    let observed = Observed {
        framework,
        stored_bytes: 0,
        status: Some(&status),
        server_date: None,
        admission: None,
        growths: &[],
        objects: &objects,
    };
    let moment = Moment { now: at.timestamp(), server: None, seed: 1 };
    let policy = Policy::new(Classifier::new(&[]).expect("no rules are valid rules"));
    sync(&observed, moment, &policy).persist.map_or(status, |next| *next)
}

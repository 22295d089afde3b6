//! Names, labels, annotations and the slot of the objects made for a Framework.

/// API group of `Framework`.
pub const GROUP: &str = "frameworkcontroller.microsoft.com";
/// `apiVersion` of `Framework`.
pub const API_VERSION: &str = "frameworkcontroller.microsoft.com/v1";
/// `kind` of `Framework`.
pub const KIND: &str = "Framework";
/// Label of ConfigMaps, Pods and QueueUnits, and of Frameworks while there are several replicas: the slot of
/// the Framework, decimal, 0 to 255.
pub const SLOT_LABEL: &str = "frameworkcontroller.microsoft.com/slot";
/// Finalizer of the ConfigMap: it is deleted only after all its Pods are gone.
pub const FOREGROUND_DELETION: &str = "foregroundDeletion";

/// Variables that a Pod gets as annotations and environment, and in part as labels.
pub mod variable {
    /// Namespace of the Framework.
    pub const FRAMEWORK_NAMESPACE: &str = "FC_FRAMEWORK_NAMESPACE";
    /// Name of the Framework.
    pub const FRAMEWORK_NAME: &str = "FC_FRAMEWORK_NAME";
    /// Name of the TaskRole.
    pub const TASKROLE_NAME: &str = "FC_TASKROLE_NAME";
    /// Index of the Task.
    pub const TASK_INDEX: &str = "FC_TASK_INDEX";
    /// Name of the ConfigMap.
    pub const CONFIGMAP_NAME: &str = "FC_CONFIGMAP_NAME";
    /// Name of the Pod.
    pub const POD_NAME: &str = "FC_POD_NAME";
    /// UID of the Framework.
    pub const FRAMEWORK_UID: &str = "FC_FRAMEWORK_UID";
    /// Id of the FrameworkAttempt.
    pub const FRAMEWORK_ATTEMPT_ID: &str = "FC_FRAMEWORK_ATTEMPT_ID";
    /// Instance UID of the FrameworkAttempt.
    pub const FRAMEWORK_ATTEMPT_INSTANCE_UID: &str = "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID";
    /// UID of the ConfigMap.
    pub const CONFIGMAP_UID: &str = "FC_CONFIGMAP_UID";
    /// Instance UID of the TaskRole.
    pub const TASKROLE_UID: &str = "FC_TASKROLE_UID";
    /// Instance UID of the Task.
    pub const TASK_UID: &str = "FC_TASK_UID";
    /// Id of the TaskAttempt.
    pub const TASK_ATTEMPT_ID: &str = "FC_TASK_ATTEMPT_ID";
    /// UID of the Pod; environment only.
    pub const POD_UID: &str = "FC_POD_UID";
    /// Instance UID of the TaskAttempt; environment only.
    pub const TASK_ATTEMPT_INSTANCE_UID: &str = "FC_TASK_ATTEMPT_INSTANCE_UID";
}

/// Name of the ConfigMap that represents an attempt of this Framework.
pub fn config_map_name(framework: &str) -> String {
    format!("{framework}-attempt")
}

/// The Framework whose attempts a ConfigMap of this name represents.
pub fn framework_of_config_map(config_map: &str) -> Option<&str> {
    config_map.strip_suffix("-attempt").filter(|name| is_dns_word(name))
}

/// Name of the Pod of a Task.
pub fn pod_name(framework: &str, task_role: &str, task_index: i32) -> String {
    format!("{framework}-{task_role}-{task_index}")
}

/// Instance UID of an attempt: its id and the UID of the object that represents it.
pub fn attempt_instance_uid(id: i32, object_uid: &str) -> String {
    format!("{id}_{object_uid}")
}

/// Whether `name` may name a Framework or a TaskRole: `^[a-z0-9]{1,63}$`.
pub fn is_dns_word(name: &str) -> bool {
    (1..=63).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

/// Whether `name` may name a namespace: `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`.
pub fn is_namespace(name: &str) -> bool {
    let is_at_an_end = |b: Option<&u8>| b.is_some_and(|b| *b != b'-');
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
        && is_at_an_end(bytes.first())
        && is_at_an_end(bytes.last())
}

/// The slot of a Framework, for life: the top 8 bits of the 64-bit FNV-1a hash of its UID.
///
/// Kubernetes' `shardRange` list selector hashes UIDs the same way.
pub fn slot(framework_uid: &str) -> u8 {
    (fnv_1a(framework_uid.as_bytes()) >> 56) as u8
}

/// The 64-bit FNV-1a hash, which is the same in every version of the program.
pub fn fnv_1a(bytes: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.iter().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_is_the_top_byte_of_fnv_1a() {
        // Reference vectors of the FNV authors: "" and "a".
        assert_eq!(slot(""), 0xcb);
        assert_eq!(slot("a"), 0xaf);
    }

    #[test]
    fn a_namespace_has_the_name_of_a_host() {
        let longest = "a".repeat(63);
        for name in ["a", "7", "team-a", "a--b", &longest] {
            assert!(is_namespace(name), "{name}");
        }
        let too_long = "a".repeat(64);
        for name in ["", "-", "a-", "-a", "A", "a_b", "a.b", &too_long] {
            assert!(!is_namespace(name), "{name}");
        }
    }

    #[test]
    fn only_an_attempt_config_map_names_a_framework() {
        assert_eq!(framework_of_config_map("job-attempt"), Some("job"));
        assert_eq!(framework_of_config_map("my-job-attempt"), None, "a Framework's name has no dash");
        assert_eq!(framework_of_config_map("-attempt"), None);
    }
}

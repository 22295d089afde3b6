//! The grant that is missing when the API server does not let the account read its Framework.

/// The Role and RoleBinding that we ship, for the ServiceAccount `default` of namespace `default`.
const SHIPPED: &str = include_str!("../../../deploy/barrier/role.yaml");

/// The account that the API server refused.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Account {
    /// A Pod's ServiceAccount, the usual case.
    Service { namespace: String, name: String },
    /// A user of a kubeconfig.
    User(String),
    /// The message does not name it.
    Unknown,
}

/// The error message for a 403: the account, the missing right, and the manifest that grants it.
pub fn forbidden(namespace: &str, name: &str, message: &str) -> String {
    let account = Account::of(message);
    format!(
        "{} may not get {} {name} in namespace {namespace} (403: {message}); \
         this is deploy/barrier/role.yaml for that account, for kubectl apply -f -:\n{}",
        account.words(),
        framework_api::crd::NAME,
        account.manifest(namespace),
    )
}

impl Account {
    /// The API server says `User "system:serviceaccount:jobs:default" cannot get ...`.
    fn of(message: &str) -> Account {
        let user = message.split("User \"").nth(1).and_then(|rest| rest.split('"').next());
        let Some(user) = user else { return Account::Unknown };
        let service_account =
            user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
        match service_account {
            Some((namespace, name)) => {
                Account::Service { namespace: namespace.to_owned(), name: name.to_owned() }
            }
            None => Account::User(user.to_owned()),
        }
    }

    fn words(&self) -> String {
        match self {
            Account::Service { namespace, name } => {
                format!("ServiceAccount {name} of namespace {namespace}")
            }
            Account::User(user) => format!("user {user:?}"),
            Account::Unknown => "the account".to_owned(),
        }
    }

    fn manifest(&self, namespace: &str) -> String {
        let lines = SHIPPED.lines().filter(|line| !line.starts_with('#'));
        let rules: Vec<&str> = lines.take_while(|line| *line != "subjects:").collect();
        let rules = rules.join("\n").replace("namespace: default", &format!("namespace: {namespace}"));
        let subject = match self {
            Account::Service { namespace, name } => {
                format!("- kind: ServiceAccount\n  name: {name}\n  namespace: {namespace}")
            }
            // JSON is YAML, and quotes any name.
            Account::User(user) => {
                format!("- kind: User\n  name: {}", serde_json::Value::from(user.as_str()))
            }
            Account::Unknown => {
                format!("- kind: ServiceAccount\n  name: default\n  namespace: {namespace}")
            }
        };
        format!("{rules}\nsubjects:\n{subject}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(user: &str) -> String {
        format!(
            "frameworks.frameworkcontroller.microsoft.com \"train\" is forbidden: User \"{user}\" cannot get \
             resource \"frameworks\" in API group \"frameworkcontroller.microsoft.com\" in the namespace \
             \"jobs\""
        )
    }

    #[test]
    fn the_shipped_manifest_is_printed_for_the_default_account() {
        let shipped: Vec<&str> = SHIPPED.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            Account::of(&message("system:serviceaccount:default:default")).manifest("default"),
            shipped.join("\n")
        );
    }

    #[test]
    fn verb_resource_and_account_are_named() {
        let words = forbidden("jobs", "train", &message("system:serviceaccount:jobs:trainer"));
        let start = "ServiceAccount trainer of namespace jobs may not get \
                     frameworks.frameworkcontroller.microsoft.com train in namespace jobs (403: ";
        assert!(words.starts_with(start), "{words}");
        assert!(words.ends_with("- kind: ServiceAccount\n  name: trainer\n  namespace: jobs"), "{words}");
        assert_eq!(words.matches("namespace: jobs").count(), 3, "{words}");
    }

    #[test]
    fn other_users_are_granted_by_name() {
        let words = forbidden("jobs", "train", &message("anna"));
        assert!(words.starts_with("user \"anna\" may not get "), "{words}");
        assert!(words.ends_with("- kind: User\n  name: \"anna\""), "{words}");
        assert!(forbidden("jobs", "train", "no").starts_with("the account may not get "));
    }

    /// The last 2048 bytes of the log become the container's termination message.
    #[test]
    fn all_of_it_fits_into_a_termination_message() {
        let long = "x".repeat(63);
        let words = forbidden(&long, &long, &message(&format!("system:serviceaccount:{long}:{long}")));
        assert!(words.len() < 1900, "{}", words.len());
    }
}

//! The errors of commands, for users: the failed step, the place, and the remedy if one is known.

use framework_access::causes;
use framework_api::codec::DecodeError;

use crate::visible::visible;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server cannot be found.
    #[error(transparent)]
    Access(#[from] framework_access::Error),
    /// `KUBECONFIG` names no file: another cluster than the meant one would be found.
    #[error("KUBECONFIG={files:?} names no file that exists: correct it, or unset it for ~/.kube/config")]
    NoKubeconfig {
        /// Its value.
        files: String,
    },
    /// There is no kubeconfig, and the program is not in a cluster.
    #[error("no kubeconfig was found: set KUBECONFIG, give --kubeconfig, or create ~/.kube/config ({0})")]
    Nowhere(#[source] framework_access::account::Error),
    /// A context is named, and there is no kubeconfig: the cluster of the Pod would be taken instead.
    #[error(
        "there is no context {context:?}, because no kubeconfig was found: set KUBECONFIG, give \
         --kubeconfig, or create ~/.kube/config"
    )]
    NoContext {
        /// Its name.
        context: String,
    },
    /// Groups are named, and no user.
    #[error("--as-group needs --as: requests act as a user, and as a member of groups")]
    NoUser,
    /// No client can be made for it.
    #[error(transparent)]
    Client(#[from] framework_access::client::Error),
    /// The object does not exist.
    #[error("there is no Framework {name:?} in the namespace {namespace:?}")]
    NotFound {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// The API server does not know the kind.
    #[error(
        "cannot {action}: the API server serves no Frameworks (404): install FrameworkController, or choose \
         its cluster by --context"
    )]
    NotServed {
        /// The step that failed.
        action: String,
    },
    /// The API server refused a request, or did not answer.
    #[error("cannot {action}: {}", problem(source))]
    Request {
        /// The step that failed.
        action: String,
        /// The problem.
        source: Box<kube::Error>,
    },
    /// A status cannot be decompressed.
    #[error("the status of the Framework {name:?} in the namespace {namespace:?} is damaged: {source}")]
    Status {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// The problem.
        source: DecodeError,
    },
    /// An object has another form than its definition says.
    #[error("cannot read the Framework {name:?} in the namespace {namespace:?}: {source}")]
    Form {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// The problem.
        source: serde_json::Error,
    },
    /// Some Frameworks cannot be read.
    #[error("{} Frameworks cannot be read", all.len())]
    Unreadable {
        /// Why, for each of them.
        all: Vec<Error>,
        /// The text about those that can.
        text: String,
    },
    /// A change has no effect.
    #[error("cannot {action}: {source}")]
    Refused {
        /// The change.
        action: String,
        /// Why.
        source: Refusal,
    },
    /// The awaited goal will never be reached.
    #[error("{framework} can no longer reach --for={goal}: {why}")]
    Never {
        /// The Framework.
        framework: String,
        /// The goal.
        goal: String,
        /// Why.
        why: String,
        /// The Frameworks that were as asked.
        text: String,
    },
    /// The awaited goal was not reached in time.
    #[error("timed out after {after}: {framework} {state}, --for={goal} was not reached")]
    TimedOut {
        /// The Framework.
        framework: String,
        /// The goal.
        goal: String,
        /// How long it took.
        after: String,
        /// How the Framework is.
        state: String,
        /// The Frameworks that were as asked.
        text: String,
    },
    /// A manifest cannot be simulated.
    #[error("cannot simulate {file:?}: {problem}")]
    Manifest {
        /// The file.
        file: String,
        /// The problem.
        problem: String,
    },
    /// The output cannot be written in that form.
    #[error("cannot write the output as YAML: {0}")]
    Yaml(String),
}

/// Why a change is not sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such TaskRole.
    #[error("there is no TaskRole {role:?}; there are {known}")]
    NoRole {
        /// The name that was given.
        role: String,
        /// The names that exist.
        known: String,
    },
    /// It has ended.
    #[error("it is Completed, and its Tasks never run again")]
    Completed,
    /// It was stopped.
    #[error("it was stopped, which is final: create it again")]
    Stopped,
    /// Another client was faster.
    #[error("it was changed at the same time: give the command again")]
    Changed,
}

impl Error {
    /// The texts for stderr, one for each failure.
    pub fn messages(&self) -> Vec<String> {
        match self {
            Error::Unreadable { all, .. } => all.iter().map(Error::message).collect(),
            error => vec![error.message()],
        }
    }

    /// The text, with control characters escaped. A message of the server may have several lines: those
    /// after the first are indented, so that none passes for a line of the program.
    fn message(&self) -> String {
        self.to_string().lines().map(visible).collect::<Vec<_>>().join("\n  ")
    }

    /// The text for stdout of a command that failed halfway.
    pub fn output(&self) -> &str {
        match self {
            Error::Never { text, .. } | Error::TimedOut { text, .. } | Error::Unreadable { text, .. } => text,
            _ => "",
        }
    }
}

/// Why a request failed: the API server's message and the HTTP status, or each cause of the failure once.
pub fn problem(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        let words = if status.message.is_empty() { &status.reason } else { &status.message };
        return format!("{} ({})", words.trim(), status.code);
    }
    match error {
        kube::Error::Service(cause) => causes(&**cause),
        error => causes(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_is_reported_in_the_words_of_the_server_alone() {
        let message = "pods is forbidden: User \"ann\" cannot list it".to_owned();
        let status =
            kube::core::Status { code: 403, message, reason: "Forbidden".to_owned(), ..Default::default() };
        let source = Box::new(kube::Error::Api(Box::new(status)));
        let error = Error::Request { action: "list Pods".to_owned(), source };
        assert_eq!(error.message(), "cannot list Pods: pods is forbidden: User \"ann\" cannot list it (403)");
    }

    #[test]
    fn a_message_of_the_server_poses_as_no_other_line() {
        let problem = "denied:\x1b[8m\n  check: 1\r\nerror: forged".to_owned();
        let error = Error::Manifest { file: "a".to_owned(), problem };
        let expected = "cannot simulate \"a\": denied:^[[8m\n    check: 1\n  error: forged";
        assert_eq!(error.message(), expected);
    }
}

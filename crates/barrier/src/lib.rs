//! FrameworkBarrier: waits until every Task of a Framework has an IP, and leaves their addresses in files.
//!
//! It runs as an init container of a Framework's Pods. [`barrier`] decides the next query and the end,
//! without I/O or a clock; [`request`] sends queries, [`files`] writes, and this file connects them. It only
//! reads, and needs no other right than `get` on its Framework.

pub mod addresses;
pub mod barrier;
pub mod document;
pub mod files;
pub mod grant;
pub mod injector;
pub mod pace;
pub mod request;
pub mod settings;
pub mod table;

use std::path::PathBuf;

use framework_access::client;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use barrier::{Barrier, Failure, Next, Passed, Query};
use pace::Pace;
use request::Reader;
use settings::Settings;

/// Why the barrier was not passed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The environment is not valid.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// No API server is known.
    #[error(transparent)]
    Access(#[from] framework_access::Error),
    /// No client can be made.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The operating system gives no thread, or no signals.
    #[error("cannot start threads or catch signals: {0}")]
    System(#[from] std::io::Error),
    /// Some Tasks got no IP before the time-out.
    #[error("gave up after {after} s: {missing}")]
    TimedOut {
        /// The time-out in seconds.
        after: u64,
        /// The Tasks without an IP.
        missing: String,
    },
    /// The last query before the time-out failed.
    #[error("gave up after {after} s, as the Framework could not be read: {problem}")]
    Unread {
        /// The time-out in seconds.
        after: u64,
        /// The reason of the failure.
        problem: String,
    },
    /// There is no such Framework.
    #[error("there is no Framework {name} in namespace {namespace}: {message}")]
    NotFound {
        /// The namespace of the Framework.
        namespace: String,
        /// The name of the Framework.
        name: String,
        /// The API server's message.
        message: String,
    },
    /// The account may not read the Framework.
    #[error("{0}")]
    Forbidden(String),
    /// The API server does not know the account.
    #[error(
        "the API server does not accept the credentials of this Pod (401: {0}); is its ServiceAccount's \
         token mounted, and not out of date?"
    )]
    Unauthorized(String),
    /// The name of a TaskRole cannot be used in a shell.
    #[error(transparent)]
    Injector(#[from] injector::BadName),
    /// A file cannot be written.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// A signal stopped it.
    #[error("stopped by signal {0}")]
    Stopped(u8),
}

impl Error {
    /// The exit code of the program. The controller classifies 201 as a transient conflict and 210 as
    /// permanent.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::TimedOut { .. } => 201,
            Error::Settings(_) | Error::NotFound { .. } => 210,
            // The convention of shells.
            Error::Stopped(signal) => 128 + signal,
            Error::Access(_)
            | Error::Client(_)
            | Error::System(_)
            | Error::Unread { .. }
            | Error::Forbidden(_)
            | Error::Unauthorized(_)
            | Error::Injector(_)
            | Error::Files(_) => 1,
        }
    }
}

/// Runs the program: reads the environment, waits, and writes the files here and to the volume.
pub fn start() -> Result<(), Error> {
    let settings = Settings::read(|name| std::env::var_os(name))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            biased;
            error = stopped(&mut terminate, SignalKind::terminate()) => Err(error),
            error = stopped(&mut interrupt, SignalKind::interrupt()) => Err(error),
            ended = work(&settings) => ended,
        }
    });
    // Does not wait for a DNS lookup that is under way.
    runtime.shutdown_background();
    ended
}

/// Waits for a signal. Without a handler, the signal would not end the first process of a container.
async fn stopped(signal: &mut Signal, kind: SignalKind) -> Error {
    signal.recv().await;
    Error::Stopped(u8::try_from(kind.as_raw_value()).unwrap_or_default())
}

async fn work(settings: &Settings) -> Result<(), Error> {
    let config = framework_access::find(&settings.directions).await?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        namespace = settings.namespace,
        framework = settings.name,
        server = %config.cluster_url,
        "waiting until every Task has an IP"
    );
    let client = client::connect(config, concat!("frameworkbarrier/", env!("CARGO_PKG_VERSION")))?;
    // The two may be the same directory.
    let dirs = [PathBuf::from("."), settings.mount.clone()];
    run(settings, client, fastrand::Rng::new(), &dirs).await
}

/// Waits, and writes the files into `dirs`.
pub async fn run(
    settings: &Settings,
    client: kube::Client,
    random: fastrand::Rng,
    dirs: &[PathBuf],
) -> Result<(), Error> {
    let Passed { document, addresses } = wait(settings, client, random).await?;
    let script = injector::render(&addresses)?;
    for variable in injector::too_long(&addresses) {
        warn!(variable, "too long for Linux to pass on to a program: read framework.json instead");
    }
    files::write(dirs, &document, &script)?;
    let tasks: usize = addresses.roles.iter().map(|role| role.ips.len()).sum();
    info!(tasks, "every Task has an IP");
    Ok(())
}

async fn wait(settings: &Settings, client: kube::Client, random: fastrand::Rng) -> Result<Passed, Error> {
    let reader = Reader::new(client, &settings.namespace, &settings.name);
    let mut barrier = Barrier::new(settings.timeout, Pace::new(settings.interval, random));
    let (began, mut next, mut logged) = (Instant::now(), barrier.first(), String::new());
    loop {
        let (query, after) = match next {
            Next::Ask { query, after } => (query, after),
            Next::Pass(passed) => return Ok(passed),
            Next::Fail(failure) => return Err(ended(failure, settings)),
        };
        sleep(after).await;
        let reply = reader.send(query, barrier.since(query)).await;
        next = barrier.handle(query, reply, began.elapsed());
        if let Next::Ask { query: Query::Table, .. } = next
            && logged != barrier.awaited()
        {
            barrier.awaited().clone_into(&mut logged);
            info!(reason = %logged, "waiting");
        }
    }
}

fn ended(failure: Failure, settings: &Settings) -> Error {
    let (after, namespace, name) = (settings.timeout.as_secs(), &settings.namespace, &settings.name);
    match failure {
        Failure::TimedOut { missing } => Error::TimedOut { after, missing },
        Failure::Unread { problem } => Error::Unread { after, problem },
        Failure::NotFound(message) => {
            Error::NotFound { namespace: namespace.clone(), name: name.clone(), message }
        }
        Failure::Denied { code: 401, message } => Error::Unauthorized(message),
        Failure::Denied { message, .. } => Error::Forbidden(grant::forbidden(namespace, name, &message)),
    }
}

#[cfg(test)]
mod tests;

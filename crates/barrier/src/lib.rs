//! FrameworkBarrier: waits until every Task of a Framework has an IP, and leaves their addresses in files.
//!
//! It runs as an init container of a Framework's Pods. What is asked next, and when it is over, is decided by
//! [`barrier`], which does neither I/O nor time; [`request`] asks, [`files`] writes, and here it is put
//! together. It only reads, and needs no other right than `get` on its Framework.

pub mod barrier;
pub mod document;
pub mod files;
pub mod glimpse;
pub mod grant;
pub mod injector;
pub mod pace;
pub mod request;
pub mod roster;
pub mod settings;

use std::path::PathBuf;

use framework_access::client;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use barrier::{Barrier, Failure, Next, Passed, Question};
use pace::Pace;
use request::Asker;
use settings::Settings;

/// Where the containers of the original's examples look for the files.
pub const MOUNT: &str = "/mnt/frameworkbarrier";

/// Why the barrier was not passed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The environment is not good.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// No API server is known.
    #[error(transparent)]
    Access(#[from] framework_access::Error),
    /// No client can be made.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The operating system gives no thread, or no signals.
    #[error("the operating system refuses what the program needs: {0}")]
    System(#[from] std::io::Error),
    /// In all the time some Tasks got no IP.
    #[error("gave up after {after} s: {missing}")]
    TimedOut {
        /// In seconds.
        after: u64,
        /// Who was missing.
        missing: String,
    },
    /// The time is over, and the last read had failed.
    #[error("gave up after {after} s, as the Framework could not be read: {problem}")]
    Unread {
        /// In seconds.
        after: u64,
        /// How it failed.
        problem: String,
    },
    /// There is no such Framework.
    #[error("there is no Framework {name} in namespace {namespace}: {message}")]
    NotFound {
        /// Of the Framework.
        namespace: String,
        /// Of the Framework.
        name: String,
        /// The API server's words.
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
    /// A TaskRole has a name that no shell could take.
    #[error(transparent)]
    Injector(#[from] injector::BadName),
    /// A file cannot be written.
    #[error(transparent)]
    Files(#[from] files::Error),
    /// It was told to stop.
    #[error("told to stop by signal {0}")]
    Stopped(u8),
}

impl Error {
    /// The exit code of the program. The controller knows 201 as a transient conflict and 210 as permanent.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::TimedOut { .. } => 201,
            Error::Settings(_) | Error::NotFound { .. } => 210,
            // As a shell has it.
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
            error = told(&mut terminate, SignalKind::terminate()) => Err(error),
            error = told(&mut interrupt, SignalKind::interrupt()) => Err(error),
            ended = work(&settings) => ended,
        }
    });
    // A name that is being looked up is waited for by nobody any more.
    runtime.shutdown_background();
    ended
}

/// Nobody else does it: the first process of a container is not ended by a signal that it does not catch.
async fn told(signal: &mut Signal, kind: SignalKind) -> Error {
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
    // The same directory twice is no harm.
    let places = [PathBuf::from("."), settings.mount.clone()];
    run(settings, client, fastrand::Rng::new(), &places).await
}

/// Waits, and writes the files into `places`.
pub async fn run(
    settings: &Settings,
    client: kube::Client,
    random: fastrand::Rng,
    places: &[PathBuf],
) -> Result<(), Error> {
    let Passed { document, roster } = wait(settings, client, random).await?;
    let script = injector::render(&roster)?;
    for variable in injector::too_long(&roster) {
        warn!(variable, "too long for Linux to pass on to a program: read framework.json instead");
    }
    files::write(places, &document, &script)?;
    let tasks: usize = roster.roles.iter().map(|role| role.ips.len()).sum();
    info!(tasks, "every Task has an IP");
    Ok(())
}

async fn wait(settings: &Settings, client: kube::Client, random: fastrand::Rng) -> Result<Passed, Error> {
    let asker = Asker::new(client, &settings.namespace, &settings.name);
    let mut barrier = Barrier::new(settings.timeout, Pace::new(settings.interval, random));
    let (begun, mut next, mut said) = (Instant::now(), barrier.first(), String::new());
    loop {
        let (question, after) = match next {
            Next::Ask { question, after } => (question, after),
            Next::Pass(passed) => return Ok(passed),
            Next::Fail(failure) => return Err(ended(failure, settings)),
        };
        sleep(after).await;
        let answer = asker.ask(question, barrier.since(question)).await;
        next = barrier.hear(question, answer, begun.elapsed());
        if let Next::Ask { question: Question::Glimpse, .. } = next
            && said != barrier.awaited()
        {
            barrier.awaited().clone_into(&mut said);
            info!("waiting: {said}");
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

//! The program: arguments, environment and config file become settings, a client and a running controller.
//!
//! This crate knows nothing of Frameworks: `framework-core` decides, and `framework-runtime` acts. A test
//! that runs a controller in its own process makes a [`Controller`] around any [`kube::Client`].

pub mod access;
pub mod args;
pub mod controller;
pub mod logging;
pub mod settings;
pub mod signals;
pub mod startup;

use std::sync::Arc;

use framework_runtime::client;
use framework_runtime::metrics::Metrics;
use framework_runtime::run::MemberParts;
use framework_runtime::seeds::Seeds;
use framework_runtime::stderr::Stderr;
use tracing::info;

pub use controller::Controller;

use args::Args;
use logging::Log;
use settings::{Environment, Settings};
use signals::Signals;

/// Why the program ends with an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings are not valid.
    #[error(transparent)]
    Settings(#[from] settings::Error),
    /// The log filter is not valid.
    #[error(transparent)]
    Filter(#[from] logging::BadFilter),
    /// No API server is configured.
    #[error(transparent)]
    Access(#[from] framework_access::Error),
    /// No client can be made.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// The operating system gives no threads, or no signals.
    #[error("cannot start threads or catch signals: {0}")]
    System(#[from] std::io::Error),
    /// The controller ended.
    #[error(transparent)]
    Controller(#[from] controller::Error),
    /// A second signal came while stopping.
    #[error("second signal: exiting immediately")]
    Forced,
}

impl Error {
    /// The exit code of the program.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Settings(_) | Error::Filter(_) | Error::Access(_) => 2,
            Error::Controller(controller::Error::NotReady(_)) => 3,
            Error::Client(_) | Error::System(_) | Error::Controller(_) | Error::Forced => 1,
        }
    }
}

/// Runs the program until a signal stops it.
pub fn start(args: &Args, environment: &Environment) -> Result<(), Error> {
    let filter = logging::filter(environment.log.as_deref(), args.log_level.as_deref())?;
    let log = Log::start(filter, args.log_format)?;
    logging::log_panics();
    let settings = Settings::load(args)?;
    // The loop stays on this thread; the runtime's worker decodes its input, sends its requests and serves
    // the ports. More than one would wake each other for every message: a tenth of this program's processor
    // time. Long work leaves the worker to others meanwhile (`block_in_place`).
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let ended = runtime.block_on(work(settings, environment, log.stderr()));
    // Does not wait for work whose result is no longer needed.
    runtime.shutdown_background();
    ended
}

async fn work(settings: Settings, environment: &Environment, stderr: &Stderr) -> Result<(), Error> {
    let mut signals = Signals::catch()?;
    let incarnation = format!("{:08x}", Seeds::system().draw() as u32);
    let config = access::find(&settings.config, environment).await?;
    info!(version = env!("CARGO_PKG_VERSION"), incarnation, server = %config.cluster_url, "starting");
    let metrics = Metrics::new();
    let client = client::connect(config.clone(), &incarnation, &metrics)?;
    let host = environment.host.as_deref().unwrap_or("frameworkcontroller");
    let member = match settings.member {
        None => None,
        Some(policy) => Some(MemberParts {
            has_whole_budget: settings.config.kube_client_limits_per_replica,
            client: client::connect(config, &incarnation, &metrics)?,
            policy,
            host: host.to_owned(),
            // Without a Pod, no later program proves by its UID that this one has ended.
            pod: environment.pod_uid.clone().unwrap_or_else(|| incarnation.clone()),
            run: incarnation.clone(),
        }),
    };
    let (journal, instance) = (Arc::new(stderr.clone()), format!("{host}-{incarnation}"));
    let controller = Controller { settings, client, metrics, journal, instance, member };
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let running = controller.run(async {
        // An error means that the sender is gone, which ends the program as well.
        let _ = stopped.await;
    });
    let forced = async {
        signals.next().await;
        // It may have ended by itself in the meantime.
        let _ = stop.send(());
        signals.next().await;
    };
    tokio::select! {
        biased;
        ended = running => Ok(ended?),
        () = forced => Err(Error::Forced),
    }
}

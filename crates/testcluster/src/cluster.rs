//! One running control plane, from start to removal.
//!
//! Guarantees: when `start` returns, Pods can be created and run in namespace `default`; every component ends
//! with this value, and with this process however it ends. Must never: touch the user's kubeconfig, or listen
//! on another address than 127.0.0.1.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use framework_audit as audit;
use framework_programs::{Binaries, Program};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PostParams};
use rustix::process::Signal;

use crate::certificates::Certificates;
use crate::components::{self, Component, Ports};
use crate::definitions;
use crate::error::Error;
use crate::kubeconfig::{ADMIN, Users};
use crate::kubectl::{self, Output};
use crate::options::Options;
use crate::process::{KEEP_FILE, Process, Warden};
use crate::ready;

/// How long the control plane may take to get ready: seconds usually, more on a busy machine.
const READY: Duration = Duration::from_secs(120);

/// The log message of a component whose port is not free.
const TAKEN: &str = "address already in use";

/// A running control plane.
pub struct Cluster {
    dir: PathBuf,
    binaries: Binaries,
    ports: Ports,
    certificates: Certificates,
    users: Users,
    feature_gates: Vec<String>,
    components: Mutex<BTreeMap<Component, Process>>,
    guests: Mutex<Vec<Process>>,
    // After the components: it removes their directory.
    warden: Warden,
}

impl Cluster {
    /// Starts a control plane and waits until it is ready. Builds missing programs first.
    ///
    /// Blocks, and may be called from within a runtime.
    pub fn start(options: Options) -> Result<Cluster, Error> {
        let wanted = if options.kubectl { &Program::ALL[..] } else { &Program::OF_A_CLUSTER };
        let binaries = Binaries::with(wanted, &framework_programs::say)?;
        // A port that was free may be taken by the time that it is listened on.
        let mut retries = 0..2;
        loop {
            match Cluster::try_start(&options, binaries.clone()) {
                Err(Error::ComponentDied { tail, .. })
                    if tail.contains(TAKEN) && retries.next().is_some() => {}
                started => return started,
            }
        }
    }

    fn try_start(options: &Options, binaries: Binaries) -> Result<Cluster, Error> {
        let cluster = Cluster::prepare(options, binaries)?;
        cluster.launch(Component::Etcd)?;
        cluster.launch(Component::Apiserver)?;
        ready::block_on(async {
            cluster.apiserver_ready().await?;
            for component in [Component::ControllerManager, Component::Scheduler, Component::Kwok] {
                cluster.launch(component)?;
            }
            let client = cluster.client();
            ready::create_nodes(client.clone(), options.nodes).await?;
            let check = || cluster.check();
            let nodes = || ready::nodes(client.clone(), options.nodes);
            ready::until("Nodes did not get ready", READY, check, nodes).await?;
            let account = || ready::default_account(client.clone(), "default");
            ready::until("namespace default did not get ready", READY, check, account).await
        })?;
        Ok(cluster)
    }

    /// Makes the directory with all files that components read.
    fn prepare(options: &Options, binaries: Binaries) -> Result<Cluster, Error> {
        let temporary = tempfile::Builder::new().prefix("testcluster-").tempdir();
        let dir = temporary.map_err(Error::io("making a directory for the cluster"))?.keep();
        let warden = Warden::start(&dir)?;
        if options.keep {
            leave_behind(&dir);
        }
        let ports = Ports::free()?;
        let certificates = Certificates::make(&dir)?;
        let url = format!("https://127.0.0.1:{}", ports.apiserver);
        let users = Users::write(&dir, &url, &certificates, &options.users)?;
        components::write_settings(&dir, options.audit_bodies, options.kwok_workers)?;
        let (components, guests) = Default::default();
        let feature_gates = options.feature_gates.clone();
        Ok(Cluster { dir, binaries, ports, certificates, users, feature_gates, components, guests, warden })
    }

    /// The kubeconfig of a user with all rights.
    pub fn kubeconfig_path(&self) -> &Path {
        self.kubeconfig_for(ADMIN).expect("every cluster has this user")
    }

    /// The kubeconfig of a user of [`Options::users`].
    pub fn kubeconfig_for(&self, user: &str) -> Result<&Path, Error> {
        self.users.kubeconfig(user)
    }

    /// The URL of the API server.
    pub fn url(&self) -> &str {
        self.users.url()
    }

    /// The directory with the kubeconfigs, the logs (`<program>.log`) and the data.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory with kubectl and the other programs.
    pub fn programs(&self) -> &Path {
        self.binaries.dir()
    }

    /// A client with all rights. It re-sends nothing by itself, and needs the runtime that it is made in.
    pub fn client(&self) -> kube::Client {
        self.client_for(ADMIN).expect("every cluster has this user")
    }

    /// A client that acts as a user of [`Options::users`].
    pub fn client_for(&self, user: &str) -> Result<kube::Client, Error> {
        kube::Client::try_from(self.users.config(user)?).map_err(Error::request("making a client"))
    }

    /// Runs kubectl as the user with all rights.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<Output, Error> {
        self.kubectl_as(ADMIN, arguments, "")
    }

    /// Runs kubectl as a user, with a text on its standard input for `-f -`.
    pub fn kubectl_as(&self, user: &str, arguments: &[&str], input: &str) -> Result<Output, Error> {
        let program = self.binaries.path(Program::Kubectl);
        kubectl::run(&program, self.users.kubeconfig(user)?, &self.dir, arguments, input)
    }

    /// Installs the CustomResourceDefinitions of a directory, and waits until all are established.
    ///
    /// Blocks, and may be called from within a runtime.
    pub fn install(&self, crds: &Path) -> Result<(), Error> {
        let files = definitions::files(crds)?;
        ready::block_on(async {
            let client = self.client();
            for file in &files {
                let name = definitions::apply(client.clone(), file).await?;
                let what = format!("the CustomResourceDefinition {name} was not established");
                let look = || definitions::established(client.clone(), &name);
                ready::until(&what, READY, || self.check(), look).await?;
            }
            Ok(())
        })
    }

    /// Creates a namespace and waits until Pods can be created in it.
    pub async fn namespace(&self, name: &str) -> Result<(), Error> {
        let client = self.client();
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        Api::<Namespace>::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .map_err(Error::request(format!("creating namespace {name}")))?;
        let what = format!("namespace {name} did not get ready");
        let account = || ready::default_account(client.clone(), name);
        ready::until(&what, READY, || self.check(), account).await
    }

    /// The audit log of the API server, since the cluster started.
    pub fn audit(&self) -> audit::Log {
        audit::Log::new(components::audit_log(&self.dir))
    }

    /// The process of a component.
    pub fn pid(&self, component: Component) -> Result<u32, Error> {
        self.with(component, |process| Ok(process.pid()))
    }

    /// Kills the API server at once, as a crash would.
    pub fn stop_apiserver(&self) -> Result<(), Error> {
        self.stop(Component::Apiserver)
    }

    /// Starts the API server again on the same port with the same data, and waits until it is ready.
    pub fn start_apiserver(&self) -> Result<(), Error> {
        self.launch(Component::Apiserver)?;
        ready::block_on(self.apiserver_ready())
    }

    /// Starts a second API server on the same store, as a cluster with several has, and returns a client of
    /// it with all rights.
    ///
    /// It sees every change, also while the first one is paused or dead. The components use only the first
    /// one, and [`audit`](Self::audit) is the log of the first one. It ends with the cluster.
    pub fn witness(&self) -> Result<kube::Client, Error> {
        let ports = Ports { apiserver: Ports::free()?.apiserver, ..self.ports };
        let mut arguments = components::witness(&self.dir, ports, &self.certificates, &self.users);
        arguments.extend(components::feature_gates(&self.feature_gates));
        let path = self.binaries.path(Program::KubeApiserver);
        let process = Process::start(&self.warden, &self.dir, "witness", &path, &arguments, None)?;
        self.lock_guests().push(process);
        let config = || self.users.config_at(ADMIN, ports.apiserver);
        let client = |config| kube::Client::try_from(config).map_err(Error::request("making a client"));
        ready::block_on(async { self.answers(client(config()?)?).await })?;
        client(config()?)
    }

    /// Kills a component at once, as a crash would.
    pub fn stop(&self, component: Component) -> Result<(), Error> {
        self.with(component, |process| process.kill(&self.warden))?;
        self.lock().remove(&component);
        Ok(())
    }

    /// Starts a component that was stopped. Does not wait until it is ready.
    pub fn launch(&self, component: Component) -> Result<(), Error> {
        let mut arguments =
            components::arguments(component, &self.dir, self.ports, &self.certificates, &self.users)?;
        if component == Component::Apiserver {
            arguments.extend(components::feature_gates(&self.feature_gates));
        }
        let program = component.program();
        let path = self.binaries.path(program);
        let process = Process::start(&self.warden, &self.dir, program.name(), &path, &arguments, None)?;
        match self.lock().insert(component, process) {
            Some(mut replaced) => replaced.kill(&self.warden),
            None => Ok(()),
        }
    }

    /// Starts another program beside the components, such as the controller under test, and returns its pid.
    ///
    /// `KUBECONFIG` names the kubeconfig of the user with all rights. It logs to `<dir>/<name>.log`, and ends
    /// with the cluster.
    pub fn host(
        &self,
        name: &'static str,
        program: &Path,
        arguments: &[String],
        dir: &Path,
    ) -> Result<u32, Error> {
        let kubeconfig = Some(self.kubeconfig_path());
        let process = Process::start(&self.warden, dir, name, program, arguments, kubeconfig)?;
        let pid = process.pid();
        self.lock_guests().push(process);
        Ok(pid)
    }

    /// Kills a program that [`host`](Self::host) started, as a crash would. [`check`](Self::check) ignores it
    /// afterwards.
    pub fn kill_hosted(&self, pid: u32) -> Result<(), Error> {
        self.dismiss(pid)?.kill(&self.warden)
    }

    /// Asks a program that [`host`](Self::host) started to end, and returns its status.
    /// [`check`](Self::check) ignores it afterwards. A program that does not end in time is killed, which is
    /// an error.
    pub fn terminate_hosted(&self, pid: u32, patience: Duration) -> Result<ExitStatus, Error> {
        self.dismiss(pid)?.terminate(&self.warden, patience)
    }

    fn dismiss(&self, pid: u32) -> Result<Process, Error> {
        let mut guests = self.lock_guests();
        match guests.iter().position(|process| process.pid() == pid) {
            Some(position) => Ok(guests.swap_remove(position)),
            None => Err(Error::NotRunning { component: "a hosted program of that pid" }),
        }
    }

    /// Pauses a component without ending it: it does not reply, and its connections stay.
    pub fn pause(&self, component: Component) -> Result<(), Error> {
        self.with(component, |process| process.pause())
    }

    /// Resumes a paused component.
    pub fn resume(&self, component: Component) -> Result<(), Error> {
        self.with(component, |process| process.signal(Signal::CONT))
    }

    /// Pauses a program that [`host`](Self::host) started, as a suspended machine would.
    pub fn pause_hosted(&self, pid: u32) -> Result<(), Error> {
        self.hosted(pid, Process::pause)
    }

    /// Resumes a paused program.
    pub fn resume_hosted(&self, pid: u32) -> Result<(), Error> {
        self.hosted(pid, |process| process.signal(Signal::CONT))
    }

    fn hosted(&self, pid: u32, act: impl FnOnce(&Process) -> Result<(), Error>) -> Result<(), Error> {
        let guests = self.lock_guests();
        let process = guests.iter().find(|process| process.pid() == pid);
        act(process.ok_or(Error::NotRunning { component: "a hosted program of that pid" })?)
    }

    /// A function that makes the directory stay when the cluster ends, for a look at the logs.
    pub(crate) fn keeper(&self) -> impl Fn() + Send + Sync + 'static {
        let dir = self.dir.clone();
        move || {
            leave_behind(&dir);
        }
    }

    /// Fails if a component, or a program hosted beside them, has ended by itself.
    pub fn check(&self) -> Result<(), Error> {
        self.lock_guests().iter_mut().try_for_each(|process| process.check(&self.warden))?;
        self.lock().values_mut().try_for_each(|process| process.check(&self.warden))
    }

    async fn apiserver_ready(&self) -> Result<(), Error> {
        self.answers(self.client()).await
    }

    async fn answers(&self, client: kube::Client) -> Result<(), Error> {
        let look = || ready::apiserver(client.clone());
        ready::until("the API server did not get ready", READY, || self.check(), look).await
    }

    fn with<T>(
        &self,
        component: Component,
        act: impl FnOnce(&mut Process) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.lock().get_mut(&component) {
            Some(process) => act(process),
            None => Err(Error::NotRunning { component: component.program().name() }),
        }
    }

    fn lock_guests(&self) -> MutexGuard<'_, Vec<Process>> {
        self.guests.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Component, Process>> {
        // The map is consistent after a panic of a test: each change is one insertion or removal.
        self.components.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            leave_behind(&self.dir);
            eprintln!("the test cluster's logs are left in {}", self.dir.display());
        }
        for process in self.lock_guests().iter_mut().chain(self.lock().values_mut()) {
            // The warden kills a process that cannot be killed here.
            let _ = process.kill(&self.warden);
        }
    }
}

fn leave_behind(dir: &Path) {
    // After an error the directory is removed, which does no harm.
    let _ = std::fs::write(dir.join(KEEP_FILE), "");
}

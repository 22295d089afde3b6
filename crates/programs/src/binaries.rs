//! The programs of the control plane: found ready, or built from the Go module proxy on first use.
//!
//! Programs are cached by version outside the work tree. They appear there by an atomic rename under a lock,
//! so that test programs that start together build once and never see a partial file. Nothing is ever
//! downloaded except through `go build`, whose sums are pinned by the committed `go.sum` files.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::time::Instant;

use crate::error::Error;
use crate::go;
use crate::output::{Report, say};

/// The version of Kubernetes that is built and that the programs report.
pub const KUBERNETES_VERSION: &str = "v1.36.3";
/// The oldest version of Kubernetes that is supported, in its last release.
pub const OLDEST_KUBERNETES_VERSION: &str = "v1.30.14";

/// A program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The controllers, garbage collection among them.
    KubeControllerManager,
    /// The scheduler.
    KubeScheduler,
    /// The command line client.
    Kubectl,
    /// Simulates nodes and kubelets.
    Kwok,
    /// Checks metrics and alerts. No cluster runs it.
    Promtool,
    /// Scrapes metrics and answers queries. No cluster runs it.
    Prometheus,
    /// Renders and installs the chart. No cluster runs it.
    Helm,
}

impl Program {
    /// All programs of a test cluster, in the order in which they are built; those of one module stand
    /// together.
    pub const ALL: [Program; 6] = [
        Program::Etcd,
        Program::KubeApiserver,
        Program::KubeControllerManager,
        Program::KubeScheduler,
        Program::Kubectl,
        Program::Kwok,
    ];

    /// The programs that a cluster runs: all but the command line client.
    pub const OF_A_CLUSTER: [Program; 5] = [
        Program::Etcd,
        Program::KubeApiserver,
        Program::KubeControllerManager,
        Program::KubeScheduler,
        Program::Kwok,
    ];

    /// The name of the program's file.
    pub fn name(self) -> &'static str {
        match self {
            Program::Etcd => "etcd",
            Program::KubeApiserver => "kube-apiserver",
            Program::KubeControllerManager => "kube-controller-manager",
            Program::KubeScheduler => "kube-scheduler",
            Program::Kubectl => "kubectl",
            Program::Kwok => "kwok",
            Program::Promtool => "promtool",
            Program::Prometheus => "prometheus",
            Program::Helm => "helm",
        }
    }

    fn package(self) -> String {
        match self {
            Program::Etcd => "go.etcd.io/etcd/server/v3".into(),
            Program::Kwok => "sigs.k8s.io/kwok/cmd/kwok".into(),
            Program::Promtool => "github.com/prometheus/prometheus/cmd/promtool".into(),
            Program::Prometheus => "github.com/prometheus/prometheus/cmd/prometheus".into(),
            Program::Helm => "helm.sh/helm/v4/cmd/helm".into(),
            _ => format!("k8s.io/kubernetes/cmd/{}", self.name()),
        }
    }

    fn module(self) -> &'static Module {
        match self {
            Program::Etcd => &MODULES[0],
            Program::Kwok => &MODULES[1],
            Program::Promtool | Program::Prometheus => &PROMETHEUS,
            Program::Helm => &HELM,
            _ => &MODULES[2],
        }
    }

    /// Whether it is as old as the API server, in a cluster of the oldest version. kubectl is not: users
    /// have a new one.
    fn ages(self) -> bool {
        matches!(self, Program::KubeApiserver | Program::KubeControllerManager | Program::KubeScheduler)
    }
}

/// A Go module of ours that pins the sources of some programs.
struct Module {
    name: &'static str,
    /// The build tags.
    tags: &'static str,
    go_mod: &'static str,
    go_sum: &'static str,
}

static MODULES: [Module; 3] = [
    Module {
        name: "etcd",
        tags: "",
        go_mod: include_str!("../go/etcd/go.mod"),
        go_sum: include_str!("../go/etcd/go.sum"),
    },
    Module {
        name: "kwok",
        tags: "",
        go_mod: include_str!("../go/kwok/go.mod"),
        go_sum: include_str!("../go/kwok/go.sum"),
    },
    Module {
        name: "kubernetes",
        tags: "",
        go_mod: include_str!("../go/kubernetes/go.mod"),
        go_sum: include_str!("../go/kubernetes/go.sum"),
    },
];

static OLDEST: Module = Module {
    name: "kubernetes-oldest",
    tags: "",
    go_mod: include_str!("../go/kubernetes-oldest/go.mod"),
    go_sum: include_str!("../go/kubernetes-oldest/go.sum"),
};

/// Not one of [`MODULES`]: another version of it moves no program of the cluster.
static PROMETHEUS: Module = Module {
    name: "prometheus",
    // Without the clients of every cloud that Prometheus can discover targets in.
    tags: "remove_all_sd",
    go_mod: include_str!("../go/prometheus/go.mod"),
    go_sum: include_str!("../go/prometheus/go.sum"),
};

/// Not one of [`MODULES`] either.
static HELM: Module = Module {
    name: "helm",
    tags: "",
    go_mod: include_str!("../go/helm/go.mod"),
    go_sum: include_str!("../go/helm/go.sum"),
};

/// A directory that holds programs of the control plane.
#[derive(Clone, Debug)]
pub struct Binaries {
    dir: PathBuf,
}

impl Binaries {
    /// Every program: takes those of `$KUBEBUILDER_ASSETS` if all are there; else builds those that the cache
    /// lacks.
    ///
    /// The first build takes some minutes of CPU and reports its progress on stderr.
    pub fn locate() -> Result<Binaries, Error> {
        Binaries::with(&Program::ALL, &say)
    }

    /// The same for these programs alone: the others may be missing from the directory. Calls `report` with
    /// each line of progress.
    pub fn with(wanted: &[Program], report: Report<'_>) -> Result<Binaries, Error> {
        if let Some(ready) = ready() {
            return Ok(ready);
        }
        let root = cache_root()?.join(version_hash());
        let cached = Binaries { dir: root.join("bin") };
        cached.complete(&root, wanted, report, |missing| {
            // Programs of one module are built together: they share most packages, and are linked side by
            // side.
            let mut groups = missing.chunk_by(|one, other| one.module().name == other.module().name);
            groups
                .try_for_each(|group| cached.build(&root, group, group[0].module(), &linker_flags(), report))
        })?;
        Ok(cached)
    }

    /// The programs of a cluster of the oldest supported version; builds those that the cache lacks.
    ///
    /// That takes about as long as the first build of the others, so that no test does it by itself: name the
    /// directory in `KUBEBUILDER_ASSETS` to use it.
    pub fn oldest() -> Result<Binaries, Error> {
        let others = Binaries::locate()?;
        let flags = version_flags(OLDEST_KUBERNETES_VERSION, "30");
        let root = cache_root()?.join(hash([OLDEST.go_mod, OLDEST.go_sum, &flags, &version_hash()]));
        let oldest = Binaries { dir: root.join("bin") };
        oldest.complete(&root, &Program::ALL, &say, |missing| {
            let (aged, same): (Vec<Program>, Vec<Program>) =
                missing.iter().partition(|program| program.ages());
            for program in same {
                symlink(others.path(program), oldest.path(program))
                    .map_err(Error::io(format!("linking {}", program.name())))?;
            }
            if aged.is_empty() { Ok(()) } else { oldest.build(&root, &aged, &OLDEST, &flags, &say) }
        })?;
        Ok(oldest)
    }

    /// The file of a program that no cluster runs. If the cache lacks it, it is built in some minutes of CPU.
    /// It is cached by its own module alone.
    pub fn tool(program: Program, report: Report<'_>) -> Result<PathBuf, Error> {
        let module = program.module();
        let root = cache_root()?.join(hash([module.go_mod, module.go_sum, STRIPPED, std::env::consts::ARCH]));
        let cached = Binaries { dir: root.join("bin") };
        cached.complete(&root, &[program], report, |missing| {
            cached.build(&root, missing, module, STRIPPED, report)
        })?;
        Ok(cached.path(program))
    }

    /// Those of the wanted programs that [`with`](Self::with) would have to build.
    pub fn missing_in_the_cache(wanted: &[Program]) -> Vec<Program> {
        match (ready(), cache_root()) {
            (Some(_), _) => Vec::new(),
            (None, Ok(root)) => Binaries { dir: root.join(version_hash()).join("bin") }.missing(wanted),
            (None, Err(_)) => wanted.to_vec(),
        }
    }

    /// The directory, for a PATH.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file of a program.
    pub fn path(&self, program: Program) -> PathBuf {
        self.dir.join(program.name())
    }

    fn missing(&self, wanted: &[Program]) -> Vec<Program> {
        wanted.iter().copied().filter(|program| !self.path(*program).is_file()).collect()
    }

    /// Calls `build` with the missing programs, if there are any, while it holds the cache's lock.
    fn complete(
        &self,
        root: &Path,
        wanted: &[Program],
        report: Report<'_>,
        build: impl FnOnce(&[Program]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.missing(wanted).is_empty() {
            return Ok(());
        }
        fs::create_dir_all(&self.dir).map_err(Error::io(format!("creating {}", self.dir.display())))?;
        let path = root.join("lock");
        let lock = File::create(&path).map_err(Error::io(format!("creating {}", path.display())))?;
        if lock.try_lock().is_err() {
            report("another process builds the test cluster's programs: waiting for it");
            lock.lock().map_err(Error::io("waiting for the lock of the builds"))?;
        }
        // The process that held the lock may have built them.
        let missing = self.missing(wanted);
        if missing.is_empty() {
            return Ok(());
        }
        go::require()?;
        report(&format!("building {} programs into {}, once", missing.len(), self.dir.display()));
        build(&missing)
    }

    /// Builds programs of one module by one `go build`.
    fn build(
        &self,
        root: &Path,
        programs: &[Program],
        module: &Module,
        flags: &str,
        report: Report<'_>,
    ) -> Result<(), Error> {
        let names = programs.iter().map(|program| program.name()).collect::<Vec<_>>().join(", ");
        let source = root.join("src").join(module.name);
        fs::create_dir_all(&source).map_err(Error::io(format!("creating {}", source.display())))?;
        fs::write(source.join("go.mod"), module.go_mod).map_err(Error::io("writing go.mod"))?;
        fs::write(source.join("go.sum"), module.go_sum).map_err(Error::io("writing go.sum"))?;
        let unfinished = root.join("unfinished");
        fs::create_dir_all(&unfinished).map_err(Error::io(format!("creating {}", unfinished.display())))?;
        // A single program is named here: the package of etcd has another name. Several go to the directory.
        let output = if let [one] = programs { unfinished.join(one.name()) } else { unfinished.clone() };
        report(&format!("building {names} ..."));
        let began = Instant::now();
        let built = Command::new("go")
            .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-tags", module.tags])
            .args(["-gcflags", WITHOUT_DWARF, "-ldflags", flags, "-o"])
            .arg(&output)
            .args(programs.iter().map(|program| program.package()))
            .current_dir(&source)
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            // Compilers run for seconds: memory is cheaper than the time to collect it.
            .env("GOGC", std::env::var_os("GOGC").unwrap_or_else(|| "400".into()))
            .stdin(Stdio::null())
            .output()
            .map_err(Error::io("running go build"))?;
        if !built.status.success() {
            let text = String::from_utf8_lossy(&built.stderr);
            let lines: Vec<&str> = text.lines().collect();
            let output = lines[lines.len().saturating_sub(20)..].join("\n");
            return Err(Error::BuildFailed { programs: names, output });
        }
        let mut bytes = 0;
        for program in programs {
            let file = unfinished.join(program.name());
            bytes += fs::metadata(&file).map_err(Error::io("reading the built program's size"))?.len();
            fs::rename(&file, self.path(*program))
                .map_err(Error::io("moving the built program into place"))?;
        }
        let seconds = began.elapsed().as_secs();
        report(&format!("building {names} ... built in {seconds} s, {} MB", bytes / 1_000_000));
        Ok(())
    }
}

/// The programs of `$KUBEBUILDER_ASSETS`, if all are there. If some are missing, it says once which.
fn ready() -> Option<Binaries> {
    static SAID: Once = Once::new();
    let ready = Binaries { dir: directory("KUBEBUILDER_ASSETS")? };
    let missing: Vec<&str> = ready.missing(&Program::ALL).into_iter().map(Program::name).collect();
    if missing.is_empty() {
        return Some(ready);
    }
    let (dir, missing) = (ready.dir.display(), missing.join(", "));
    let why = format!("KUBEBUILDER_ASSETS is not used, and all programs are built: {dir} lacks {missing}");
    SAID.call_once(|| say(&why));
    None
}

/// The directory that a variable names, if it is set. It is absolute: programs are built and started in other
/// directories than this process's.
fn directory(variable: &str) -> Option<PathBuf> {
    let set = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)?;
    Some(std::path::absolute(&set).unwrap_or(set))
}

fn linker_flags() -> String {
    version_flags(KUBERNETES_VERSION, "36")
}

/// No debugging information, which the linker would drop: see [`STRIPPED`]. It is not part of the hash:
/// it asks for no other code, so cached programs that were built without it stay in use.
const WITHOUT_DWARF: &str = "all=-dwarf=false";

/// No symbols.
const STRIPPED: &str = "-s -w";

/// No symbols, and the version that `go build` outside of Kubernetes' own tree cannot know.
fn version_flags(version: &str, minor: &str) -> String {
    let stamps = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].map(|package| {
        format!(
            "-X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor} \
             -X {package}.gitTreeState=clean"
        )
    });
    format!("{STRIPPED} {}", stamps.join(" "))
}

fn version_hash() -> String {
    let flags = linker_flags();
    let parts = MODULES.iter().flat_map(|module| [module.go_mod, module.go_sum]);
    hash(parts.chain([flags.as_str(), std::env::consts::ARCH]))
}

/// FNV-1a over everything that the programs depend on, so that another version gets a directory of its own.
fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let hash = parts.into_iter().flat_map(str::bytes).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn cache_root() -> Result<PathBuf, Error> {
    directory("FRAMEWORK_TESTCLUSTER_CACHE")
        .or_else(|| {
            let of_home = || directory("HOME").map(|home| home.join(".cache"));
            let caches = directory("XDG_CACHE_HOME").or_else(of_home)?;
            Some(caches.join("frameworkcontroller").join("testcluster"))
        })
        .ok_or(Error::NoCacheDirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_a_tool_of_its_module() {
        for program in Program::ALL.into_iter().chain([Program::Promtool, Program::Prometheus, Program::Helm])
        {
            let (module, package) = (program.module(), program.package());
            assert!(module.go_mod.contains(&package), "{package} is no tool of {}", module.name);
        }
    }

    #[test]
    fn programs_that_age_are_the_tools_of_the_oldest_module() {
        assert!(OLDEST.go_mod.contains(&format!("k8s.io/kubernetes {OLDEST_KUBERNETES_VERSION}")));
        assert!(version_flags(OLDEST_KUBERNETES_VERSION, "30").contains("gitVersion=v1.30.14"));
        let tools = Program::ALL.into_iter().filter(|program| OLDEST.go_mod.contains(&program.package()));
        let aging = Program::ALL.into_iter().filter(|program| program.ages());
        assert!(tools.eq(aging));
    }

    #[test]
    fn the_stamped_version_is_the_pinned_one() {
        let pinned = format!("k8s.io/kubernetes {KUBERNETES_VERSION}");
        assert!(Program::Kubectl.module().go_mod.contains(&pinned));
        assert!(linker_flags().contains("gitVersion=v1.36.3"));
    }

    #[test]
    fn no_program_of_an_incomplete_directory_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        let binaries = Binaries { dir: dir.path().into() };
        for program in Program::ALL.into_iter().skip(1) {
            fs::write(binaries.path(program), "").unwrap();
        }
        assert_eq!(binaries.missing(&Program::ALL), [Program::Etcd]);
        assert!(binaries.missing(&[Program::Kwok]).is_empty());
    }
}

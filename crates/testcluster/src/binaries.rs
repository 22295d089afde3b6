//! The programs of the control plane: found ready, or built from the Go module proxy on first use.
//!
//! Programs are cached by version outside the work tree and appear there by an atomic rename under a lock, so
//! that test programs that start together build once and never see half a file. Nothing is ever downloaded
//! except through `go build`, whose sums are pinned by the committed `go.sum` files.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::error::Error;

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
    /// The player of nodes and kubelets.
    Kwok,
}

impl Program {
    /// All programs, in the order in which they are built: the ones that share most code stand together.
    pub const ALL: [Program; 6] = [
        Program::Etcd,
        Program::KubeApiserver,
        Program::KubeControllerManager,
        Program::KubeScheduler,
        Program::Kubectl,
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
        }
    }

    fn package(self) -> String {
        match self {
            Program::Etcd => "go.etcd.io/etcd/server/v3".into(),
            Program::Kwok => "sigs.k8s.io/kwok/cmd/kwok".into(),
            _ => format!("k8s.io/kubernetes/cmd/{}", self.name()),
        }
    }

    fn module(self) -> &'static Module {
        match self {
            Program::Etcd => &MODULES[0],
            Program::Kwok => &MODULES[1],
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
    go_mod: &'static str,
    go_sum: &'static str,
}

static MODULES: [Module; 3] = [
    Module {
        name: "etcd",
        go_mod: include_str!("../go/etcd/go.mod"),
        go_sum: include_str!("../go/etcd/go.sum"),
    },
    Module {
        name: "kwok",
        go_mod: include_str!("../go/kwok/go.mod"),
        go_sum: include_str!("../go/kwok/go.sum"),
    },
    Module {
        name: "kubernetes",
        go_mod: include_str!("../go/kubernetes/go.mod"),
        go_sum: include_str!("../go/kubernetes/go.sum"),
    },
];

static OLDEST: Module = Module {
    name: "kubernetes-oldest",
    go_mod: include_str!("../go/kubernetes-oldest/go.mod"),
    go_sum: include_str!("../go/kubernetes-oldest/go.sum"),
};

/// A directory that holds every program.
#[derive(Clone, Debug)]
pub struct Binaries {
    dir: PathBuf,
}

impl Binaries {
    /// Takes the programs of `$KUBEBUILDER_ASSETS` if all are there; else builds what the cache lacks.
    ///
    /// The first build takes some minutes of CPU and says on stderr what it is doing.
    pub fn locate() -> Result<Binaries, Error> {
        if let Some(dir) = std::env::var_os("KUBEBUILDER_ASSETS") {
            let ready = Binaries { dir: dir.into() };
            if ready.missing().is_empty() {
                return Ok(ready);
            }
        }
        let root = cache_root()?.join(version_hash());
        let cached = Binaries { dir: root.join("bin") };
        if !cached.missing().is_empty() {
            cached.build(&root, |program| {
                cached.build_one(&root, program, program.module(), &linker_flags())
            })?;
        }
        Ok(cached)
    }

    /// The programs of a cluster of the oldest version that is supported; builds what the cache lacks.
    ///
    /// That takes about as long as the first build of the others, so that no test does it by itself: name the
    /// directory in `KUBEBUILDER_ASSETS` to have it used.
    pub fn oldest() -> Result<Binaries, Error> {
        let others = Binaries::locate()?;
        let flags = version_flags(OLDEST_KUBERNETES_VERSION, "30");
        let root = cache_root()?.join(hash([OLDEST.go_mod, OLDEST.go_sum, &flags, &version_hash()]));
        let oldest = Binaries { dir: root.join("bin") };
        if !oldest.missing().is_empty() {
            oldest.build(&root, |program| match program.ages() {
                true => oldest.build_one(&root, program, &OLDEST, &flags),
                false => symlink(others.path(program), oldest.path(program))
                    .map_err(Error::io(format!("linking {}", program.name()))),
            })?;
        }
        Ok(oldest)
    }

    /// The directory, for a PATH.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The file of a program.
    pub fn path(&self, program: Program) -> PathBuf {
        self.dir.join(program.name())
    }

    fn missing(&self) -> Vec<Program> {
        Program::ALL.into_iter().filter(|program| !self.path(*program).is_file()).collect()
    }

    /// Builds what is missing while holding the cache's lock.
    fn build(&self, root: &Path, one: impl Fn(Program) -> Result<(), Error>) -> Result<(), Error> {
        fs::create_dir_all(&self.dir).map_err(Error::io(format!("creating {}", self.dir.display())))?;
        let lock = File::create(root.join("lock")).map_err(Error::io("creating the lock of the builds"))?;
        if lock.try_lock().is_err() {
            say("another process builds the test cluster's programs: waiting for it");
            lock.lock().map_err(Error::io("waiting for the lock of the builds"))?;
        }
        // Somebody may have built them while we waited.
        let missing = self.missing();
        if !missing.is_empty() {
            require_go()?;
            say(&format!("building {} programs into {}, once", missing.len(), self.dir.display()));
        }
        missing.into_iter().try_for_each(one)
    }

    fn build_one(&self, root: &Path, program: Program, module: &Module, flags: &str) -> Result<(), Error> {
        let source = root.join("src").join(module.name);
        fs::create_dir_all(&source).map_err(Error::io(format!("creating {}", source.display())))?;
        fs::write(source.join("go.mod"), module.go_mod).map_err(Error::io("writing go.mod"))?;
        fs::write(source.join("go.sum"), module.go_sum).map_err(Error::io("writing go.sum"))?;
        say(&format!("building {} ...", program.name()));
        let began = Instant::now();
        let unfinished = root.join(format!("{}.unfinished", program.name()));
        let output = Command::new("go")
            .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o"])
            .arg(&unfinished)
            .arg(program.package())
            .current_dir(&source)
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            .stdin(Stdio::null())
            .output()
            .map_err(Error::io("running go build"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let lines: Vec<&str> = said.lines().collect();
            let output = lines[lines.len().saturating_sub(20)..].join("\n");
            return Err(Error::BuildFailed { program: program.name(), output });
        }
        let bytes = fs::metadata(&unfinished).map_err(Error::io("reading the built program's size"))?.len();
        fs::rename(&unfinished, self.path(program))
            .map_err(Error::io("moving the built program into place"))?;
        say(&format!(
            "building {} ... built in {} s, {} MB",
            program.name(),
            began.elapsed().as_secs(),
            bytes / 1_000_000
        ));
        Ok(())
    }
}

fn require_go() -> Result<(), Error> {
    match Command::new("go").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::GoMissing),
        Err(source) => Err(Error::Io { step: "running go".into(), source }),
    }
}

fn linker_flags() -> String {
    version_flags(KUBERNETES_VERSION, "36")
}

/// No symbols, and the version that `go build` outside of Kubernetes' own tree cannot know.
fn version_flags(version: &str, minor: &str) -> String {
    let stamps = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].map(|package| {
        format!(
            "-X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor} \
             -X {package}.gitTreeState=clean"
        )
    });
    format!("-s -w {}", stamps.join(" "))
}

fn version_hash() -> String {
    let flags = linker_flags();
    let parts = MODULES.iter().flat_map(|module| [module.go_mod, module.go_sum]);
    hash(parts.chain([flags.as_str(), std::env::consts::ARCH]))
}

/// FNV-1a over all that decides what the programs are: whoever changes a version gets a directory of its own.
fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let hash = parts.into_iter().flat_map(str::bytes).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn cache_root() -> Result<PathBuf, Error> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("FRAMEWORK_TESTCLUSTER_CACHE")
        .or_else(|| {
            let caches = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")))?;
            Some(caches.join("frameworkcontroller").join("testcluster"))
        })
        .ok_or(Error::NoCacheDirectory)
}

/// A line of progress, past the capture of the test harness: a silent wait of minutes looks like a hang.
fn say(line: &str) {
    // A closed stderr is no reason to stop.
    let _ = writeln!(std::io::stderr(), "testcluster: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_a_tool_of_its_module() {
        for program in Program::ALL {
            let (module, package) = (program.module(), program.package());
            assert!(module.go_mod.contains(&package), "{package} is no tool of {}", module.name);
        }
    }

    #[test]
    fn what_is_as_old_as_the_api_server_is_a_tool_of_the_oldest_module() {
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
        assert_eq!(binaries.missing(), [Program::Etcd]);
    }
}

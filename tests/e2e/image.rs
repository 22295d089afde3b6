//! The images, started as a container engine would start them: their own files, read-only, as their user,
//! without capabilities, in namespaces of their own. The controller runs with the arguments, the mounts and
//! the account of the shipped Deployment.
//!
//! `FRAMEWORK_IMAGES` names a directory of images to start. Otherwise the programs are linked statically with
//! the libraries that the tests are compiled with, which takes seconds; `cargo xtask image` makes a release.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use framework_image::{Image, Release, USER};
use framework_programs::workspace::cargo;
use framework_testcluster::running::Running;
use framework_testcluster::{Cluster, Component, Options, pod};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{await_our_kinds_by, block_on};

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Runs a program to its end; returns its output.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints text")
}

/// The libraries that cargo compiled for this test program, as arguments for rustc.
fn libraries(names: &[&str]) -> Vec<String> {
    let arguments = ["--workspace", "--test=e2e", "--no-run", "--quiet", "--message-format=json"];
    let messages = output(cargo(&["test"]).args(arguments));
    let messages: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let library = |name: &str| {
        let is_it =
            |message: &&Value| message["target"]["name"] == name && message["target"]["kind"][0] == "lib";
        let files = messages.iter().filter(is_it).filter_map(|message| message["filenames"].as_array());
        let file = files.flatten().filter_map(Value::as_str).find(|file| file.ends_with(".rlib"));
        file.unwrap_or_else(|| panic!("cargo names no library {name}")).to_owned()
    };
    let own = library(names[0]);
    let dependencies = Path::new(&own).parent().expect("a directory").display();
    let externs = names.iter().map(|name| format!("--extern={name}={}", library(name)));
    externs.chain([format!("-Ldependency={dependencies}")]).collect()
}

/// Links the program of an image with the C library in it.
fn link(image: &Image, directory: &Path) -> PathBuf {
    let (main, names) = match image.name {
        "frameworkbarrier" => {
            ("crates/barrier/src/main.rs", &["framework_barrier", "tracing", "tracing_subscriber"][..])
        }
        _ => ("src/main.rs", &["frameworkcontroller", "clap"][..]),
    };
    let program = directory.join(image.name);
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "--crate-type=bin", "--crate-name", image.name, main]);
    rustc.args(["-Ctarget-feature=+crt-static", "-Cstrip=symbols"]).args(libraries(names));
    output(rustc.arg("-o").arg(&program).current_dir(env!("CARGO_MANIFEST_DIR")));
    program
}

/// Writes the image, unless one is named.
fn image(image: &Image, directory: &Path) -> PathBuf {
    if let Some(images) = std::env::var_os("FRAMEWORK_IMAGES") {
        let files = std::fs::read_dir(&images).expect("the named directory is there");
        let ours = |path: &PathBuf| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            name.starts_with(&format!("{}-", image.name)) && name.ends_with(".tar")
        };
        let found: Vec<PathBuf> = files.map(|file| file.expect("an entry").path()).filter(ours).collect();
        let [image] = &found[..] else { panic!("not one image of {}: {found:?}", image.name) };
        return image.clone();
    }
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let architecture = Image::architecture(&target).expect("this machine's is known");
    let release = Release { version: env!("CARGO_PKG_VERSION"), revision: None, architecture };
    let path = directory.join(image.file_name(release));
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/image");
    image.write(release, &link(image, directory), &base, &path).expect("the image is written");
    path
}

/// A container that was made of an image and can be started: its files, its config and its mounts.
struct Container {
    /// Takes the image, `root` and the mounts.
    directory: TempDir,
    config: Value,
}

impl Container {
    /// Unpacks an image, as the specification of OCI says.
    fn create(of: &Image) -> Container {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |path: &str| directory.path().join(path);
        // It is only of this test, and the container's user must find its mounts there.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
        for path in ["layout", "root"] {
            std::fs::create_dir(at(path)).expect("a directory");
        }
        let layout = image(of, directory.path());
        output(Command::new("tar").arg("-xf").arg(layout).arg("-C").arg(at("layout")));
        let read = |path: &Path| -> Value {
            serde_json::from_slice(&std::fs::read(path).expect("it is there")).expect("JSON")
        };
        let blob = |descriptor: &Value| {
            let digest =
                descriptor["digest"].as_str().expect("a digest").strip_prefix("sha256:").expect("SHA-256");
            let path = at("layout/blobs/sha256").join(digest);
            assert!(output(Command::new("sha256sum").arg(&path)).starts_with(digest), "{descriptor}");
            assert_eq!(descriptor["size"], std::fs::metadata(&path).expect("it is there").len());
            path
        };
        let index = read(&at("layout/index.json"));
        let manifest = read(&blob(&index["manifests"][0]));
        let config = read(&blob(&manifest["config"]));
        for layer in manifest["layers"].as_array().expect("layers") {
            let (layer, root) = (blob(layer), at("root"));
            output(Command::new("tar").arg("-xzf").arg(layer).arg("--no-same-owner").arg("-C").arg(root));
        }
        Container { directory, config: config["config"].clone() }
    }

    /// The path on this machine of a file that is mounted in the container.
    fn outside(&self, inside: &str) -> PathBuf {
        self.directory.path().join("mounted").join(inside.trim_start_matches('/'))
    }

    /// Writes a file of a volume.
    fn mount(&self, inside: &str, text: &str) {
        let outside = self.outside(inside);
        std::fs::create_dir_all(outside.parent().expect("a directory")).expect("the volume is there");
        std::fs::write(&outside, text).expect("the file is written");
    }

    /// Starts it with volumes, variables and arguments.
    fn start(&self, volumes: &[&str], variables: &[(&str, &str)], arguments: &[&str]) -> Running {
        let root = self.directory.path().join("root");
        // A container engine makes the mount points before the files get read-only.
        for volume in ["/proc", "/dev"].iter().chain(volumes) {
            let (point, outside) = (root.join(volume.trim_start_matches('/')), self.outside(volume));
            if outside.is_file() {
                std::fs::write(point, "").expect("a mount point");
            } else {
                std::fs::create_dir_all(point).expect("a mount point");
            }
        }
        let (user, group) = self.config["User"].as_str().expect("a user").split_once(':').expect("a group");
        let mut line: Vec<String> = Vec::new();
        let mut add = |words: &[&str]| line.extend(words.iter().map(|word| (*word).to_owned()));
        let (user_option, group_option) = (format!("--reuid={user}"), format!("--regid={group}"));
        let program = if geteuid().is_root() {
            add(&[&user_option, &group_option, "--clear-groups", "--no-new-privs", "--inh-caps=-all"]);
            add(&["--bounding-set=-all", "bwrap"]);
            "setpriv"
        } else {
            add(&["--unshare-user", "--uid", user, "--gid", group]);
            "bwrap"
        };
        add(&["--ro-bind", root.to_str().expect("UTF-8"), "/", "--proc", "/proc", "--dev", "/dev"]);
        for volume in volumes {
            add(&["--ro-bind", self.outside(volume).to_str().expect("UTF-8"), volume]);
        }
        add(&[
            "--unshare-pid",
            "--as-pid-1",
            "--unshare-ipc",
            "--unshare-uts",
            "--die-with-parent",
            "--clearenv",
        ]);
        for (name, value) in variables {
            add(&["--setenv", name, value]);
        }
        add(&["--chdir", self.config["WorkingDir"].as_str().expect("a directory"), "--"]);
        add(&[self.config["Entrypoint"][0].as_str().expect("an entry point")]);
        add(arguments);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        let directory = tempfile::tempdir().expect("a directory");
        Running::start(Path::new(program), directory, &words, &[("PATH", &path)])
    }
}

/// The process in the container, which is the first there.
fn inside(running: &Running) -> u32 {
    let deadline = Instant::now() + LIMIT;
    let children = format!("/proc/{0}/task/{0}/children", running.pid());
    loop {
        let child = std::fs::read_to_string(&children).ok().and_then(|text| text.trim().parse().ok());
        if let Some(child) = child {
            return child;
        }
        assert!(Instant::now() < deadline, "{}", running.log());
        std::thread::sleep(PAUSE);
    }
}

/// A control plane with everything of `deploy/` installed, and no controller.
fn installed() -> Cluster {
    let cluster = Cluster::start(Options::default()).expect("a cluster of its own");
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy");
    kubectl(&cluster, &["apply", "--server-side", "-k", deploy], "");
    await_our_kinds_by(&block_on(async { cluster.client() }));
    // The garbage collector discovers a new kind within half a minute, or when it starts.
    let restarted = cluster.stop(Component::ControllerManager);
    restarted.and_then(|()| cluster.launch(Component::ControllerManager)).expect("it starts");
    cluster
}

fn kubectl(cluster: &Cluster, arguments: &[&str], input: &str) -> String {
    let output = cluster.kubectl_as("admin", arguments, input).expect("kubectl runs");
    assert!(output.status.success(), "{arguments:?}: {}", output.stderr);
    output.stdout
}

/// Writes the files that the kubelet mounts in a Pod of the Deployment, and returns its arguments.
fn mount_as_the_deployment(container: &Container, cluster: &Cluster) -> Vec<String> {
    let get = |what: &[&str]| -> Value {
        let arguments = [&["get", "--namespace=frameworkcontroller", "--output=json"], what].concat();
        serde_json::from_str(&kubectl(cluster, &arguments, "")).expect("JSON")
    };
    let deployment = get(&["deployment/frameworkcontroller"]);
    let pod = &deployment["spec"]["template"]["spec"];
    let account = pod["serviceAccountName"].as_str().expect("an account");
    let token = kubectl(cluster, &["create", "token", account, "--namespace=frameworkcontroller"], "");
    container.mount(&format!("{ACCOUNT}/token"), token.trim());
    container.mount(&format!("{ACCOUNT}/namespace"), "frameworkcontroller");
    let authority = cluster.dir().join("authority.crt");
    let authority = std::fs::read_to_string(authority).expect("the cluster has an authority");
    container.mount(&format!("{ACCOUNT}/ca.crt"), &authority);
    let (config, volume) = (&pod["volumes"][0], &pod["containers"][0]["volumeMounts"][0]);
    assert_eq!(config["name"], volume["name"]);
    let map = get(&["configmap", config["configMap"]["name"].as_str().expect("a ConfigMap")]);
    for (name, text) in map["data"].as_object().expect("files") {
        let file = format!("{}/{name}", volume["mountPath"].as_str().expect("a path"));
        container.mount(&file, text.as_str().expect("text"));
    }
    container.mount("/etc/hosts", "127.0.0.1 localhost kubernetes.default.svc\n");
    let arguments = pod["containers"][0]["args"].as_array().expect("arguments");
    arguments.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[test]
fn the_image_of_the_controller_runs_as_the_deployment_starts_it() {
    let container = Container::create(&Image::CONTROLLER);
    assert_eq!(container.config["User"], USER);
    let cluster = installed();
    let arguments = mount_as_the_deployment(&container, &cluster);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // The container has the network of this machine, where the usual port may be taken.
    arguments.push("--metrics-address=127.0.0.1:0");
    let port = cluster.url().rsplit(':').next().expect("a port");
    let variables = [
        // By name, so that a static program is seen to find it.
        ("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc"),
        ("KUBERNETES_SERVICE_PORT", port),
        ("POD_UID", "5f0d2f6e-3f0b-4c55-9a59-0b7a2f6f3a11"),
    ];
    let volumes = ["/etc/frameworkcontroller", ACCOUNT, "/etc/hosts"];
    let mut running = container.start(&volumes, &variables, &arguments);
    ready(&mut running);
    let process = inside(&running);
    runs_without_rights(process);
    a_framework_ends(&cluster, &running);
    kill_process(Pid::from_raw(process as i32).expect("a process"), Signal::TERM).expect("it runs");
    let (code, log) = running.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.trim_end().ends_with("stopped") && !log.contains("panicked"), "{log}");
}

fn ready(running: &mut Running) {
    let line = running.says("serving probes");
    let address = line.split("address=").nth(1).expect("the line has the address").trim().to_owned();
    let deadline = Instant::now() + LIMIT;
    loop {
        let ask = Command::new("curl")
            .args(["-sS", &format!("http://{address}/readyz")])
            .arg("-w%{http_code}")
            .output();
        let said = String::from_utf8_lossy(&ask.expect("curl runs").stdout).into_owned();
        if said.ends_with("200") {
            return;
        }
        assert!(Instant::now() < deadline, "{said}\n{}", running.log());
        std::thread::sleep(PAUSE);
    }
}

/// The process has the user of the image, no capability, and no file that it could write.
fn runs_without_rights(process: u32) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    if geteuid().is_root() {
        assert_eq!((field("Uid:"), field("Gid:")), (["65532"; 4].join(" "), ["65532"; 4].join(" ")));
    }
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set).trim_start_matches('0'), "", "{set}");
    }
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("NSpid:").rsplit(' ').next(), Some("1"), "signals reach it as the first process");
    let mounts = std::fs::read_to_string(format!("/proc/{process}/mountinfo")).expect("it runs");
    let options = |mount: &str| {
        let line = mounts.lines().find(|line| line.split(' ').nth(4) == Some(mount)).expect(mount);
        line.split(' ').nth(5).expect("options").split(',').next().expect("an option").to_owned()
    };
    for mount in ["/", "/etc/frameworkcontroller", ACCOUNT] {
        assert_eq!(options(mount), "ro", "{mount}");
    }
}

fn a_framework_ends(cluster: &Cluster, running: &Running) {
    let framework = json!({
        "apiVersion": "frameworkcontroller.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": "image", "namespace": "default"},
        "spec": {"taskRoles": [{"name": "worker", "taskNumber": 2, "task": {"pod": {
            "metadata": {"annotations": {pod::EXIT_CODE: "0"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
        }}}]},
    });
    kubectl(cluster, &["apply", "--server-side", "-f=-"], &framework.to_string());
    let wait = ["wait", "--for=condition=Complete", "fw/image", "--timeout=60s"];
    let waited = cluster.kubectl(&wait).expect("kubectl runs");
    assert!(waited.status.success(), "{}\n{}", waited.stderr, running.log());
    let phrase = "-o=jsonpath={.status.attemptStatus.completionStatus.phrase}";
    assert_eq!(kubectl(cluster, &["get", "fw", "image", phrase], ""), "Succeeded");
}

#[test]
fn the_image_of_the_barrier_starts_and_names_the_missing_variable() {
    let container = Container::create(&Image::BARRIER);
    let volume = container.config["WorkingDir"].as_str().expect("a directory").to_owned();
    std::fs::create_dir_all(container.outside(&volume)).expect("the volume is there");
    let (code, log) = container.start(&[&volume], &[], &[]).end();
    let lacks =
        "FC_FRAMEWORK_NAMESPACE is not set: the controller sets it in every container of a Framework's Pods";
    assert!(log.starts_with("frameworkbarrier: exit code ") && log.contains(lacks), "{code:?}: {log}");
}

//! docs/first-hour.md and docs/remove.md, block by block, on a cluster where nothing of ours is installed.
//!
//! YAML is saved by the name of its page, as the reader does. The nodes run no container: a controller of the
//! tests runs from the rollout of the Deployment until its deletion.

use std::collections::BTreeSet;
use std::process::Output;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use framework_testcluster::{Cluster, Component, Options};

use crate::cluster::{PATIENCE, ROLES, plugin, program, until};
use crate::page::{Block, blocks};
use crate::shell::{Shell, decide_fates, judge};

const FIRST_HOUR: &str = include_str!("../../docs/first-hour.md");
const REMOVE: &str = include_str!("../../docs/remove.md");

/// The objects of a cluster are at rest when they stay the same for this time.
const UNCHANGED: Duration = Duration::from_secs(2);

/// The cluster of these tests, which have it one after the other and leave it as it was.
static FRESH: Mutex<Option<Fresh>> = Mutex::new(None);

/// A cluster with the controllers that make Pods of Deployments.
struct Fresh {
    cluster: Cluster,
    shell: Shell,
    controller: Option<u32>,
    /// Its objects before the first installation.
    before: BTreeSet<String>,
}

/// Runs a test on the cluster.
fn on_fresh(test: impl FnOnce(&mut Fresh)) {
    let mut fresh = FRESH.lock().unwrap_or_else(PoisonError::into_inner);
    test(fresh.get_or_insert_with(Fresh::start));
}

/// The part of a page below a title of the second level.
fn section(page: &'static str, title: &str) -> &'static str {
    let rest = page.split(&format!("\n## {title}\n")).nth(1).expect(title);
    rest.split("\n## ").next().expect("its text")
}

impl Fresh {
    fn start() -> Fresh {
        let cluster = Cluster::start(Options::default()).expect("a cluster starts");
        let shell = Shell::new(cluster.kubeconfig_path(), plugin::search_path_with(cluster.programs()));
        shell.copy("deploy");
        let controllers = "--controllers=clusterrole-aggregation-controller,deployment-controller,\
                           replicaset-controller";
        let kubeconfig = format!("--kubeconfig={}", cluster.kubeconfig_path().display());
        let arguments = [controllers, &kubeconfig, "--leader-elect=false", "--secure-port=0"];
        let manager = cluster.programs().join("kube-controller-manager");
        cluster
            .host("deployments", &manager, &arguments.map(str::to_owned), cluster.dir())
            .expect("it starts");
        let mut fresh = Fresh { cluster, shell, controller: None, before: BTreeSet::new() };
        for role in ROLES {
            let bind = format!("create clusterrolebinding test-{role} --clusterrole={role}");
            fresh.kubectl(&format!("{bind} --user=controller"));
        }
        fresh.before = fresh.objects_at_rest();
        fresh
    }

    /// The output of commands that succeed.
    fn kubectl(&self, arguments: &str) -> String {
        let output = self.shell.run(&format!("kubectl {arguments}"), "");
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it is text")
    }

    /// All objects of the cluster, without those that come and go by themselves. None while kinds change.
    fn objects(&self) -> Option<BTreeSet<String>> {
        let kinds = self.kubectl("api-resources --verbs=list,delete --output=name");
        let kinds = kinds.lines().filter(|kind| !kind.starts_with("events"));
        let kinds = kinds.collect::<Vec<_>>().join(",");
        let line = "{range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
        let list = format!("kubectl get {kinds} --all-namespaces --output=jsonpath='{line}'");
        let output = self.shell.run(&list, "");
        let text = String::from_utf8(output.stdout).expect("it is text");
        output.status.success().then(|| text.lines().map(str::to_owned).collect())
    }

    /// All objects, once they stay the same: a control plane makes some after its start.
    fn objects_at_rest(&self) -> BTreeSet<String> {
        let deadline = Instant::now() + PATIENCE;
        let mut last: Option<BTreeSet<String>> = None;
        let mut since = Instant::now();
        loop {
            let now = self.objects();
            if now != last {
                (last, since) = (now, Instant::now());
            } else if let Some(objects) = now.filter(|_| since.elapsed() >= UNCHANGED) {
                return objects;
            }
            assert!(Instant::now() < deadline, "its objects change: {last:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Does the steps of the blocks of a text, in their order.
    fn follow(&mut self, text: &str) {
        for block in blocks(text).expect("the page is sound") {
            match block.language.as_str() {
                "yaml" => self.save(&block),
                "sh" => self.run(&block),
                other => panic!("a block of {other:?}"),
            }
        }
    }

    fn save(&self, block: &Block) {
        let mut documents = block.documents().expect("it is YAML");
        let name = documents[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        documents.iter_mut().for_each(|document| decide_fates(document, &block.notes));
        let text = documents.iter().map(|document| serde_saphyr::to_string(document).expect("it is YAML"));
        self.shell.write(&format!("{name}.yaml"), &text.collect::<Vec<_>>().join("---\n"));
    }

    fn run(&mut self, block: &Block) {
        println!("{}", block.text);
        if block.text.contains("delete deployment frameworkcontroller") {
            self.end_controller();
        }
        judge(block, &self.output(block));
        if block.text.contains("rollout status") {
            self.start_controller();
        }
    }

    /// The output of the commands of a block. A question about rights is repeated until the answer is yes: a
    /// binding, and a rule that is aggregated into a role, come into force a little later.
    fn output(&self, block: &Block) -> Output {
        let asks = block.text.starts_with("kubectl auth can-i");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.shell.run(&block.text, "");
            if !asks || output.status.success() || Instant::now() > deadline {
                return output;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Starts the controller with the installed config file, and the rights that are installed.
    fn start_controller(&mut self) {
        if self.controller.is_some() {
            return;
        }
        // The garbage collector discovers new kinds within half a minute, or when it starts.
        let restarted = self.cluster.stop(Component::ControllerManager);
        restarted.and_then(|()| self.cluster.launch(Component::ControllerManager)).expect("it starts");
        let kubeconfig = self.cluster.kubeconfig_for("controller").expect("the user exists").display();
        let config =
            format!("kubeConfigFilePath: {kubeconfig}\nmetricsAuthorization: false\nqueueing: true\n");
        let path = self.cluster.dir().join("controller.yaml");
        std::fs::write(&path, config).expect("the config file is written");
        let arguments =
            ["--config".to_owned(), path.display().to_string(), "--metrics-address=127.0.0.1:0".to_owned()];
        let dir = self.cluster.dir();
        self.controller =
            Some(self.cluster.host("controller", &program(), &arguments, dir).expect("it starts"));
    }

    fn end_controller(&mut self) {
        if let Some(pid) = self.controller.take() {
            self.cluster.terminate_hosted(pid, Duration::from_secs(60)).expect("it ends");
        }
    }

    /// Installs everything, as the page says, and lets a team run and queue jobs.
    fn furnish(&mut self) {
        self.follow(section(FIRST_HOUR, "Install the controller"));
        self.kubectl("create namespace team");
        self.kubectl("config set-context --current --namespace=team");
        self.follow(section(FIRST_HOUR, "Give the team a quota and a queue"));
        self.follow(section(FIRST_HOUR, "Two jobs, and room for one"));
        let job = "{\"apiVersion\": \"batch/v1\", \"kind\": \"Job\", \"metadata\": {\"name\": \"waiting\", \
                   \"labels\": {\"frameworkcontroller.microsoft.com/queue-name\": \"default\"}}, \
                   \"spec\": {\"suspend\": true, \"template\": {\"spec\": {\"restartPolicy\": \"Never\", \
                   \"containers\": [{\"name\": \"main\", \"image\": \"busybox\", \
                   \"resources\": {\"requests\": {\"cpu\": \"2\"}}}]}}}}";
        let output = self.shell.run("kubectl apply -f -", job);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        until("the Job waits", || {
            let units = self.kubectl("get queueunits --output=name");
            units.contains("job-waiting").then_some(())
        });
    }

    /// Deletes the team's namespace, and asserts that the cluster is as it was.
    fn is_as_it_was(&self) {
        self.kubectl("delete namespace team --timeout=60s");
        self.kubectl("config set-context --current --namespace=default");
        let mut last = Vec::new();
        until("nothing is left", || {
            let left: Vec<String> = self.objects()?.difference(&self.before).cloned().collect();
            if left != last {
                println!("left are {left:?}");
            }
            last = left;
            last.is_empty().then_some(())
        });
    }
}

#[test]
fn a_fresh_cluster_gets_a_queue_with_a_quota_in_the_first_hour() {
    on_fresh(|fresh| fresh.follow(FIRST_HOUR));
}

#[test]
fn everything_is_removed_in_the_order_of_the_page() {
    on_fresh(|fresh| {
        fresh.furnish();
        fresh.follow(section(REMOVE, "In order"));
        let waiting = fresh.kubectl("get job waiting --output=jsonpath={.spec.suspend}");
        assert_eq!(waiting, "false", "its last step resumes it");
        fresh.is_as_it_was();
    });
}

#[test]
fn a_removal_that_hangs_is_rescued_as_the_page_says() {
    on_fresh(|fresh| {
        fresh.furnish();
        fresh.end_controller();
        fresh.kubectl("delete -f deploy/install.yaml --wait=false");
        let unit = "get queueunit framework-second --output=jsonpath={.metadata.deletionTimestamp}";
        until("only its finalizer holds a unit", || (!fresh.kubectl(unit).is_empty()).then_some(()));
        let namespace = "wait --for=delete namespace/frameworkcontroller --timeout=60s";
        fresh.kubectl(namespace);
        let order = blocks(section(REMOVE, "In order")).expect("the page is sound");
        let steps = order.iter().filter(|block| {
            ["get queueunits", "delete -f deploy/install.yaml"].iter().any(|words| block.text.contains(words))
        });
        let steps: Vec<&Block> = steps.collect();
        assert_eq!(steps.len(), 2);
        steps.into_iter().for_each(|step| fresh.run(step));
        fresh.follow(section(REMOVE, "Rescue"));
        fresh.is_as_it_was();
    });
}

/// docs/operations.md, "Install" and "Upgrade and roll back".
#[test]
fn the_next_apply_names_what_scale_and_rollout_undo_changed() {
    on_fresh(|fresh| {
        let image = "frameworkcontroller:dev/image: frameworkcontroller:new";
        let edited = format!("sed 's/image: {image}/' deploy/install.yaml > new.yaml");
        assert!(fresh.shell.run(&edited, "").status.success());
        let install = "apply --server-side -f deploy/install.yaml";
        let upgrade = "apply --server-side -f new.yaml";
        let refused = |fresh: &Fresh, apply: &str, field: &str| {
            let output = fresh.shell.run(&format!("kubectl {apply}"), "");
            let words = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && words.contains("conflict"), "{field}: {words}");
            assert!(words.contains(field), "{words}");
            fresh.kubectl(&format!("{apply} --force-conflicts"));
        };
        fresh.kubectl(install);
        fresh.kubectl("-n frameworkcontroller scale deployment/frameworkcontroller --replicas=3");
        refused(fresh, install, ".spec.replicas");
        fresh.kubectl(upgrade);
        fresh.kubectl("-n frameworkcontroller rollout undo deployment/frameworkcontroller");
        refused(fresh, upgrade, ".image");
        fresh.kubectl("delete -f deploy/install.yaml --timeout=180s");
        fresh.kubectl("wait --for=delete namespace/frameworkcontroller --timeout=180s");
    });
}

//! `cargo xtask image`: the programs as OCI images, without a container engine.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use framework_image::{Image, Release};
use framework_programs::workspace::{cargo, cargo_into_target_dir, root, target_dir};

/// The images to make.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Build for this target of rustc; must be installed, as by `rustup target add`. By default that of this
    /// machine.
    #[arg(long)]
    target: Option<String>,
    /// The directory for the images [default: image in cargo's target directory]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Build with cargo-auditable, which must be installed: each program has the list of its crates.
    #[arg(long)]
    auditable: bool,
    /// Start the images, and run the controller's against an API server.
    #[arg(long)]
    check: bool,
}

/// Builds the programs, writes their images, and prints the paths of these.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let target = arguments.target.clone().map_or_else(host, Ok)?;
    let architecture = Image::architecture(&target).with_context(|| {
        format!("no image can be made for {target}: it must be of Linux on x86_64 or aarch64")
    })?;
    let programs = build(&target, arguments.auditable)?;
    let out = arguments.out.clone().unwrap_or_else(|| target_dir().join("image"));
    std::fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let revision = revision();
    let release = Release { version: env!("CARGO_PKG_VERSION"), revision: revision.as_deref(), architecture };
    let mut paths = Vec::new();
    for image in &Image::ALL {
        let path = out.join(image.file_name(release));
        image
            .write(release, &programs.join(image.name), &root().join("deploy/image"), &path)
            .with_context(|| format!("writing {}", path.display()))?;
        paths.push(path);
    }
    if arguments.check {
        check(&out)?;
    }
    Ok(paths.iter().try_for_each(|path| writeln!(io::stdout(), "{}", path.display()))?)
}

/// The target of the compiler of this machine.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").current_dir(root()).output().context("starting rustc")?;
    let text = String::from_utf8(output.stdout).context("reading from rustc")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

/// The commit of the work tree, marked if the tree differs from it; none outside of a repository.
fn revision() -> Option<String> {
    let arguments = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"];
    let output = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Builds the programs with the C library in them, and returns their directory.
fn build(target: &str, auditable: bool) -> Result<PathBuf> {
    let mut command = cargo_into_target_dir(if auditable { &["auditable", "build"] } else { &["build"] });
    // The target is named even if it is this machine's: without it the flags would reach procedural macros,
    // which are never static.
    command.args(["--release", "--locked", "--target", target]);
    command.args(Image::ALL.iter().map(|image| format!("--package={}", image.package)));
    command.args(Image::ALL.iter().map(|image| format!("--bin={}", image.name)));
    let registry = std::env::home_dir().map(|home| home.join(".cargo"));
    let registry = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(registry);
    let mut flags = vec!["-Ctarget-feature=+crt-static".to_owned(), renamed(root(), "/src")];
    flags.extend(registry.map(|registry| renamed(&registry, "/cargo")));
    command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    ensure!(command.status().context("starting cargo")?.success(), "cargo build failed");
    Ok(target_dir().join(target).join("release"))
}

/// The flag that keeps a directory of this machine out of the programs.
fn renamed(directory: &Path, name: &str) -> String {
    format!("--remap-path-prefix={}={name}", directory.display())
}

/// Runs the test of the gate on these images instead of its own.
fn check(out: &Path) -> Result<()> {
    let out = out.canonicalize().with_context(|| format!("finding {}", out.display()))?;
    let mut test = cargo(&["test", "--workspace", "--test=e2e", "image::"]);
    ensure!(test.env("FRAMEWORK_IMAGES", out).status()?.success(), "the images do not run");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_no_image_is_for_is_refused_with_those_that_there_are() {
        let target = Some("riscv64gc-unknown-linux-gnu".to_owned());
        let error = run(&Arguments { target, out: None, auditable: false, check: false }).unwrap_err();
        assert!(error.to_string().ends_with(": it must be of Linux on x86_64 or aarch64"), "{error}");
    }
}

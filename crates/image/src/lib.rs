//! OCI images of the programs that ship, written without a container engine.
//!
//! [`Image`] has the promises of an image: user, entry point, ports, labels. [`Image::write`] makes a tar
//! that Docker, containerd, skopeo and crane read. The same program gives the same bytes: no entry has a
//! time, an owner of this machine or an order by chance. Must never compile anything: its callers hand it a
//! static program.

mod archive;
mod image;
mod layer;
mod release;

pub use image::{Image, USER};
pub use release::Release;

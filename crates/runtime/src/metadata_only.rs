//! Asks the API server for the metadata of objects, instead of whole objects.

use http::header::ACCEPT;
use http::{HeaderValue, Method, Request};
use kube::client::Body;

use crate::pace::is_watch;

/// One object, or an event of a watch.
const ONE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// A LIST.
const MANY: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// `client`, whose replies hold metadata alone. A GET is a LIST or a watch.
pub fn metadata_only(client: kube::Client) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let client = client.clone();
        let is_list = request.method() == Method::GET && !is_watch(&request);
        let accept = HeaderValue::from_static(if is_list { MANY } else { ONE });
        request.headers_mut().insert(ACCEPT, accept);
        async move { client.send(request).await }
    });
    kube::Client::new(service, namespace)
}

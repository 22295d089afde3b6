//! Where two sides differ.

/// The first place at which the answers differ, as text. A side that ends first differs there.
pub fn first(simulated: &[String], real: &[String]) -> Option<String> {
    let ends = || "(no further answer)".to_owned();
    let longest = simulated.len().max(real.len());
    let mut places = (0..longest).map(|at| (simulated.get(at), real.get(at)));
    places.find(|(simulated, real)| simulated != real).map(|(simulated, real)| {
        let [simulated, real] = [simulated, real].map(|answer| answer.cloned().unwrap_or_else(ends));
        format!("simulated:\n{simulated}\nreal:\n{real}")
    })
}

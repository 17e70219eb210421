#[cfg(not(shuttle))]
mod linear;
#[cfg(shuttle)]
mod model;
#[cfg(not(shuttle))]
mod threads;

//! The choice of the side that checks the permissions of requests: the kernel or the server.

/// The side that checks permissions: the kernel or the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// The kernel checks permissions, by the owners, modes and access control lists that the server
    /// reports.
    #[default]
    #[doc(alias = "default_permissions")]
    Kernel,
    /// The server checks the permissions of each request's caller.
    #[doc(alias = "nodefault_permissions")]
    Server,
}

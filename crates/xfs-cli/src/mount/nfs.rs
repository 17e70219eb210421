//! `serve nfs`: serves a volume through NFS until a signal arrives.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::thread::{Builder, JoinHandle};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use xfs_nfs::{ActAs, NfsOptions, NfsServer, Stopper};

use crate::cli::{GlobalOptions, NfsArguments, ServeArguments, ServeProtocol};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::interrupt;
use crate::json::{self, Object};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;

struct ServeNfs {
    image: Image,
    options: NfsOptions,
}

/// Opens the image, for reading or for writing, and returns the command, ready to run.
pub(crate) fn open(
    arguments: ServeArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let ServeProtocol::Nfs(NfsArguments { image, write, listen, act_as, any_user, waits }) =
        arguments.protocol;
    let image = match write {
        true => Image::open_to_serve(&image, options)?,
        false => Image::open(&image, options)?,
    };
    let mut options = NfsOptions::default();
    options.address = listen;
    options.read_only = !write;
    options.waits = waits;
    options.any_user = any_user;
    if let Some(owner) = act_as {
        options.act_as = ActAs::User { uid: owner.uid, gid: owner.gid };
    }
    Ok(Box::new(ServeNfs { image, options }))
}

impl Run for ServeNfs {
    /// Returns the rights of the process: it accepts connections, and looks up their owners.
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { image, options } = *self;
        let volume = image.volume(console)?;
        let server = NfsServer::bind(volume.inner().clone(), options)
            .map_err(|error| of_server(options.address, &error))?;
        let address = server.address().map_err(|error| of_server(options.address, &error))?;
        let shown = names::in_message(image.path().as_os_str().as_bytes());
        console.note(format!("{shown}: serving nfs://{address}/"));
        if !address.ip().is_loopback() && options.act_as == ActAs::Caller {
            console.note(
                "every machine that reaches this address may act as any user; --act-as names one",
            );
        }
        let (watcher, signals) = watch(server.stopper())?;
        let served = server.run();
        signals.close();
        watcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // The server returns its reference to the volume. Closing needs the only one.
        let served = served.map(drop).map_err(|error| of_server(address, &error));
        volume.close_after(served, console)?;
        let mut object = Object::new();
        json::insert_name(&mut object, "image", image.path().as_os_str().as_bytes());
        object.insert("address".to_owned(), address.to_string().into());
        Ok(console.conclude_with(object)?)
    }
}

fn of_server(address: std::net::SocketAddr, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("--listen: {address}: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => failure.hint("name another port: --listen 127.0.0.1:0"),
        _ => failure,
    }
}

/// Starts a thread that stops the server at the first signal. The thread ends when the returned
/// handle is closed.
fn watch(stopper: Stopper) -> Result<(JoinHandle<()>, Handle), Failure> {
    let failed = |error: io::Error| Failure::new(Exit::Failed, format!("signals: {error}"));
    let caught = interrupt::not_ignored(&[SIGINT, SIGTERM, SIGHUP]);
    let mut signals = Signals::new(caught).map_err(failed)?;
    let handle = signals.handle();
    let wait = move || {
        for _ in &mut signals {
            stopper.stop();
        }
    };
    let watcher = Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
    Ok((watcher, handle))
}

//! `weir serve`: many jobs in one process, asked over HTTP on this machine.

mod api;
mod few;
mod home;
mod jobs;

pub(super) use api::StopWish;
pub(super) use home::read;
pub(super) use jobs::Submission;

use self::few::Few;
use self::home::{Home, default_home};
use self::jobs::Jobs;
use super::args::{Common, ServeArgs};
use super::exit::Exit;
use super::main::refuse;
use super::output::Output;
use super::signals;
use crate::crash;
use crate::graph::Problem;
use crate::job::{Runtime, StopRequest, StopSignal, stop_pair};
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Time for the last answers once no job runs any more.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// Runs the command until it is stopped.
pub(super) fn serve(args: &ServeArgs, common: &Common, runtime: &dyn Runtime, output: &mut Output<'_>) -> Exit {
    match serving(args, common, runtime, output) {
        Ok(()) => Exit::Success,
        Err(problems) => refuse(&problems, common, output),
    }
}

/// The daemon's folder that is meant.
pub(super) fn home_folder(given: Option<&PathBuf>) -> Result<PathBuf, Problem> {
    let Some(home) = given.cloned().or_else(default_home) else {
        return Err(Problem::new("--home", "there is no home folder to put it in", "give the path of a folder"));
    };
    std::path::absolute(&home).map_err(|error| Problem::new(format!("--home {}", home.display()), error.to_string(), ""))
}

fn serving(args: &ServeArgs, common: &Common, runtime: &dyn Runtime, output: &mut Output<'_>) -> Result<(), Vec<Problem>> {
    let one = |problem: Problem| vec![problem];
    if !args.listen.ip().is_loopback() {
        let next = "who may talk to the daemon may run plugins as its user: let it listen on 127.0.0.1 or [::1], and put what \
                    speaks TLS before it";
        return Err(one(Problem::new(format!("--listen {}", args.listen), "is no address of this machine alone", next)));
    }
    crash::arm_from_env().map_err(|error| one(Problem::new("environment", error, "unset it to run undisturbed")))?;
    let folder = home_folder(args.home.as_ref()).map_err(one)?;
    let home = Home::open(&folder).map_err(one)?;
    let jobs = Jobs::new(home, runtime.another()?).map_err(one)?;
    let (handle, signal) = stop_pair();
    signals::listen(handle).map_err(|error| {
        let next = "raise the limit on threads or open files";
        one(Problem::new("signals", format!("can't listen for SIGINT and SIGTERM: {error}"), next))
    })?;
    let control = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().thread_name("serve").build();
    let control = control.map_err(|error| one(Problem::new("this machine", error.to_string(), "raise its limit on threads")))?;
    control.block_on(async {
        let place = format!("--listen {}", args.listen);
        let failed =
            |error: std::io::Error| one(Problem::new(place.clone(), error.to_string(), "give another port, or 0 for any"));
        let listener = TcpListener::bind(args.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        jobs.home().publish(address).map_err(one)?;
        if common.json {
            output.json(&json!({ "address": format!("http://{address}"), "home": folder, "pid": std::process::id() }));
        } else {
            output.result(format!("weir serves jobs on http://{address}; its token lies in {}", folder.join("token").display()));
        }
        jobs.resume();
        let (router, _) = api::routes(Arc::clone(&jobs));
        // It answers until no job runs any more: a client that waits for a job's end hears of it.
        let (is_over, over) = oneshot::channel();
        let of = Arc::clone(&jobs);
        let until = async move {
            ended(of, signal).await;
            // It is waited for below.
            let _ = is_over.send(());
        };
        let serves = axum::serve(Few::new(listener), router).with_graceful_shutdown(until).into_future();
        // A client that never ends its request, or never reads its answer, keeps no daemon alive.
        let gives_up = async {
            let _ = over.await;
            tokio::time::sleep(LAST_ANSWERS).await;
        };
        tokio::select! {
            done = serves => done.map_err(failed),
            () = gives_up => Ok(()),
        }
    })?;
    // Nor does a job file that never comes to its end.
    control.shutdown_timeout(LAST_ANSWERS);
    tracing::info!("no job runs any more");
    Ok(())
}

/// Passes on what this process is asked, and returns when no job runs after it.
async fn ended(jobs: Arc<Jobs>, mut signal: StopSignal) {
    let first = signal.changed().await;
    jobs.begin_end(first);
    let idle = tokio::task::spawn_blocking({
        let jobs = Arc::clone(&jobs);
        move || jobs.wait_until_idle()
    });
    let hurry = async {
        if first != StopRequest::Now {
            jobs.begin_end(signal.changed().await);
        }
        std::future::pending::<()>().await
    };
    tokio::select! {
        // It can't be cancelled, and does not panic.
        _ = idle => {}
        () = hurry => {}
    }
}

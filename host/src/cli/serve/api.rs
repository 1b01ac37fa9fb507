//! The daemon's HTTP: routes, who may use them, and their description.

use super::jobs::{Happened, JobStatus, Jobs, Phase, Refusal, Submission};
use crate::cli::args::DEFAULT_PROBATION;
use crate::cli::json;
use crate::control::{SwapReply, SwapWish};
use crate::graph::Problem;
use crate::job::StopRequest;
use axum::Router;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Json, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{OpenApi as _, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// How long one request waits for a job's end. A client asks again.
const END_WAIT: Duration = Duration::from_secs(20);

/// What is wrong, as in `--json` of every command.
#[derive(Debug, Serialize, ToSchema)]
struct Problems {
    problems: Vec<ProblemDocument>,
}

/// One of them.
#[derive(Debug, Serialize, ToSchema)]
struct ProblemDocument {
    /// Where: a file with line and column, a section and its name, a job.
    #[serde(rename = "where")]
    place: String,
    /// What is wrong there.
    what: String,
    /// What to do about it.
    next: String,
}

/// How to stop.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct StopWish {
    /// Without a final checkpoint: the next start goes on from the last completed one.
    #[serde(default)]
    pub now: bool,
}

/// Another build of an operator's plugin.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct SwapBody {
    /// The operator, as the job file names it.
    operator: String,
    /// The new component: an absolute path of the daemon's machine.
    #[schema(value_type = String)]
    plugin: PathBuf,
    /// Checkpoints of its probation; 0: none, and no way back.
    #[serde(default = "default_probation")]
    probation: u32,
    /// Take a build that has failed on probation before.
    #[serde(default)]
    again: bool,
    /// Only say what would happen.
    #[serde(default)]
    dry_run: bool,
    /// Answer when the probation is over, instead of when the new build runs.
    #[serde(default)]
    wait: bool,
}

fn default_probation() -> u32 {
    DEFAULT_PROBATION
}

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "weir serve",
        description = "Jobs of one Weir daemon. Every request but that for this document shows the daemon's token."
    ),
    components(schemas(Phase, Happened))
)]
struct Description;

/// Every route, and their description.
pub(super) fn routes(jobs: Arc<Jobs>) -> (Router, OpenApi) {
    let mut description = Description::openapi();
    description.info.version = env!("CARGO_PKG_VERSION").to_owned();
    // The workspace's crates have neither.
    (description.info.license, description.info.contact) = (None, None);
    let token = SecurityScheme::Http(Http::builder().scheme(HttpAuthScheme::Bearer).build());
    description.components.get_or_insert_default().add_security_scheme("token", token);
    let (router, description) = OpenApiRouter::with_openapi(description)
        .routes(routes!(list, submit))
        .routes(routes!(status, remove))
        .routes(routes!(wait_for_end))
        .routes(routes!(stop))
        .routes(routes!(swap))
        .split_for_parts();
    let document = json!(description);
    let router = router
        .fallback(nothing_here)
        .method_not_allowed_fallback(nothing_here)
        .with_state(Arc::clone(&jobs))
        .layer(middleware::from_fn_with_state(jobs, authorize))
        .route("/openapi.json", axum::routing::get(move || std::future::ready(Json(document))));
    (router, description)
}

/// Lets through who shows the token.
async fn authorize(State(jobs): State<Arc<Jobs>>, request: Request, next: Next) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer "));
    // Digests are compared: how long that takes says nothing of the token.
    let is_right = |shown: &str| Sha256::digest(shown) == Sha256::digest(jobs.token());
    if shown.is_some_and(is_right) {
        return next.run(request).await;
    }
    let next = "show it: 'Authorization: Bearer …', from the file 'token' in the daemon's --home";
    refuse(StatusCode::UNAUTHORIZED, &[Problem::new("request", "the daemon's token is missing or another one", next)])
}

async fn nothing_here(request: Request) -> Response {
    let what = format!("there is no {} {}", request.method(), request.uri().path());
    refuse(StatusCode::NOT_FOUND, &[Problem::new("request", what, "GET /openapi.json describes what there is")])
}

fn refuse(status: StatusCode, problems: &[Problem]) -> Response {
    (status, Json(json!({ "problems": json::problems(problems) }))).into_response()
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self {
            Refusal::NotFound(_) => StatusCode::NOT_FOUND,
            Refusal::Conflict(_) => StatusCode::CONFLICT,
            Refusal::Unfit(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Refusal::Trouble(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        refuse(status, self.problems())
    }
}

/// A body that is not what the route takes.
struct BadBody(JsonRejection);

impl From<JsonRejection> for BadBody {
    fn from(rejection: JsonRejection) -> Self {
        BadBody(rejection)
    }
}

impl IntoResponse for BadBody {
    fn into_response(self) -> Response {
        let next = "GET /openapi.json describes it; Content-Type is application/json";
        refuse(self.0.status(), &[Problem::new("request body", self.0.body_text(), next)])
    }
}

/// Does what takes its time on a thread that may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Refusal> + Send + 'static) -> Result<Json<T>, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    let failed =
        |error: tokio::task::JoinError| Refusal::Trouble(Problem::new("weir itself", error.to_string(), "this is a bug"));
    done.map_err(failed).flatten().map(Json)
}

/// Every job of this daemon, by name.
#[utoipa::path(get, path = "/v1/jobs", security(("token" = [])), responses((status = 200, body = Vec<JobStatus>)))]
async fn list(State(jobs): State<Arc<Jobs>>) -> Json<Vec<JobStatus>> {
    Json(jobs.list())
}

/// Starts a job: it resumes where it stopped, as with `weir run`. Answers when it runs, or why it does not.
#[utoipa::path(post, path = "/v1/jobs", security(("token" = [])), request_body = Submission, responses(
    (status = 200, body = JobStatus),
    (status = 409, body = Problems, description = "A job of that name runs"),
    (status = 422, body = Problems, description = "The job can't be started as it is"),
))]
async fn submit(
    State(jobs): State<Arc<Jobs>>,
    body: Result<Json<Submission>, JsonRejection>,
) -> Result<Result<Json<JobStatus>, Refusal>, BadBody> {
    let Json(submission) = body?;
    Ok(blocking(move || jobs.submit(&submission)).await)
}

/// One job.
#[utoipa::path(get, path = "/v1/jobs/{name}", security(("token" = [])), params(("name" = String, Path)), responses(
    (status = 200, body = JobStatus),
    (status = 404, body = Problems),
))]
async fn status(State(jobs): State<Arc<Jobs>>, Path(name): Path<String>) -> Result<Json<JobStatus>, Refusal> {
    jobs.status(&name).map(Json)
}

/// Waits some seconds for a job's end. Its `phase` tells whether it has come.
#[utoipa::path(get, path = "/v1/jobs/{name}/end", security(("token" = [])), params(("name" = String, Path)), responses(
    (status = 200, body = JobStatus),
    (status = 404, body = Problems),
))]
async fn wait_for_end(State(jobs): State<Arc<Jobs>>, Path(name): Path<String>) -> Result<Json<JobStatus>, Refusal> {
    blocking(move || jobs.wait_for_end(&name, END_WAIT)).await
}

/// Asks a job to stop with a final checkpoint, or now. Answers at once.
#[utoipa::path(post, path = "/v1/jobs/{name}/stop", security(("token" = [])), params(("name" = String, Path)), request_body = StopWish, responses(
    (status = 200, body = JobStatus),
    (status = 404, body = Problems),
    (status = 409, body = Problems, description = "It does not run"),
))]
async fn stop(
    State(jobs): State<Arc<Jobs>>,
    Path(name): Path<String>,
    body: Result<Json<StopWish>, JsonRejection>,
) -> Result<Result<Json<JobStatus>, Refusal>, BadBody> {
    let Json(wish) = body?;
    let request = if wish.now { StopRequest::Now } else { StopRequest::Suspend };
    Ok(blocking(move || jobs.stop(&name, request)).await)
}

/// Exchanges the plugin of an operator while the job runs. Answers with all that became of it: `staged`, `exchanged`, `passed`, or
/// `undone` and `rolled-back`, when the old build goes on.
#[utoipa::path(post, path = "/v1/jobs/{name}/swap", security(("token" = [])), params(("name" = String, Path)), request_body = SwapBody, responses(
    (status = 200, body = Vec<Object>),
    (status = 404, body = Problems),
    (status = 409, body = Problems, description = "It does not run"),
    (status = 422, body = Problems, description = "The build does not fit: what runs goes on"),
))]
async fn swap(
    State(jobs): State<Arc<Jobs>>,
    Path(name): Path<String>,
    body: Result<Json<SwapBody>, JsonRejection>,
) -> Result<Result<Json<Vec<SwapReply>>, Refusal>, BadBody> {
    let Json(SwapBody { operator, plugin, probation, again, dry_run, wait }) = body?;
    let wish = SwapWish { operator, plugin, probation, again, dry_run };
    Ok(blocking(move || jobs.swap(&name, &wish, wait)).await)
}

/// Forgets a job that does not run. Its data folder and its output stay.
#[utoipa::path(delete, path = "/v1/jobs/{name}", security(("token" = [])), params(("name" = String, Path)), responses(
    (status = 200, body = JobStatus),
    (status = 404, body = Problems),
    (status = 409, body = Problems, description = "It runs"),
))]
async fn remove(State(jobs): State<Arc<Jobs>>, Path(name): Path<String>) -> Result<Json<JobStatus>, Refusal> {
    blocking(move || jobs.remove(&name)).await
}

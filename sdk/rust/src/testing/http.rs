//! Granted origins that a test answers for.

use crate::host::Grants;
use crate::http::{Client, Request, Response};
use std::fmt;
use std::rc::Rc;

/// Answers requests with what a function gives for (name of the grant, request). Without one nothing is granted.
#[derive(Clone, Default)]
pub struct FakeHttp(Option<Rc<Answer>>);

type Answer = dyn Fn(&str, &Request) -> Result<Response, String>;

impl FakeHttp {
    /// Origins for which this function answers.
    pub fn new(answer: impl Fn(&str, &Request) -> Result<Response, String> + 'static) -> Self {
        FakeHttp(Some(Rc::new(answer)))
    }

    /// The grants to open a sink or operator with.
    pub fn grants(&self) -> Grants {
        Grants { http: self.clone(), ..Grants::default() }
    }
}

impl Client for FakeHttp {
    fn send(&self, grant: &str, request: &Request) -> Result<Response, String> {
        match &self.0 {
            Some(answer) => answer(grant, request),
            None => Err(format!("no origin is granted as '{grant}'")),
        }
    }
}

impl fmt::Debug for FakeHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeHttp").finish_non_exhaustive()
    }
}

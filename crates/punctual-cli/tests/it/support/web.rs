//! A client of a daemon's HTTP.

use super::daemon::Daemon;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;

/// A client, and the runtime that it needs.
pub(crate) struct Web {
    runtime: tokio::runtime::Runtime,
    client: Client,
    base: String,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Web {
    /// Of this daemon.
    pub(crate) fn of(daemon: &Daemon<'_>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = Client::builder().no_proxy().build().unwrap();
        Web { runtime, client, base: daemon.ready()["http"].as_str().unwrap().to_owned() }
    }

    /// `http://127.0.0.1:PORT`.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        self.client.request(method.parse::<Method>().unwrap(), format!("{}{path}", self.base))
    }

    pub(crate) fn send(&self, request: RequestBuilder) -> Answered {
        self.runtime.block_on(async {
            let response = request.send().await.unwrap();
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            Answered { status, headers, text: response.text().await.unwrap() }
        })
    }

    pub(crate) fn get(&self, path: &str) -> Answered {
        self.send(self.request("GET", path))
    }

    /// Reads an answer piece by piece, until it is told to stop.
    pub(crate) fn stream(&self, request: RequestBuilder, mut piece: impl FnMut(&str) -> bool) {
        let mut response = self.runtime.block_on(request.send()).unwrap();
        assert_eq!(response.status().as_u16(), 200);
        while let Some(bytes) = self.runtime.block_on(response.chunk()).unwrap() {
            if !piece(std::str::from_utf8(&bytes).unwrap()) {
                return;
            }
        }
        panic!("the stream ended");
    }

    /// Opens so many streams, does something, and reads each until these words have come. Gives how many said them.
    pub(crate) fn crowd(&self, path: &str, count: usize, words: &str, act: impl FnOnce()) -> usize {
        let mut open: Vec<_> = (0..count)
            .map(|_| {
                let response = self.runtime.block_on(self.request("GET", path).send()).unwrap();
                assert_eq!(response.status().as_u16(), 200);
                response
            })
            .collect();
        act();
        let told = open.iter_mut().map(|response| {
            let mut text = String::new();
            while let Some(bytes) = self.runtime.block_on(response.chunk()).unwrap() {
                text.push_str(std::str::from_utf8(&bytes).unwrap());
                if text.contains(words) {
                    return 1;
                }
            }
            0
        });
        told.sum()
    }
}

impl Answered {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Its JSON, after it did what it was asked.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Its error: this status, this code, and these words.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str, words: &[&str]) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        let error = self.json()["error"].clone();
        assert_eq!(error["code"], code, "{self:?}");
        for word in words {
            assert!(error["message"].as_str().unwrap().contains(word), "{word} is missing: {self:?}");
        }
        error
    }
}

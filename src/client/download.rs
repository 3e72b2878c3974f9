//! Fetching a whole artifact into its staging directory, and putting it in its place.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use reqwest::Method;

use super::directory::{self, Directory, HEADER};
use super::error::{Error, Kind};
use super::fetch::{Digests, Fetch, Remote, Sink, lock, tag_name};
use super::offload::blocking;
use super::progress::{Phase, Silent};
use super::pull::{Pull, Pulled};
use super::staging::{Staging, check_room, parent};
use crate::api::artifact::Artifact;
use crate::api::route;
use crate::core::checkpoint::Header;
use crate::core::digest::BlobDigest;
use crate::core::error::DomainError;
use crate::core::intake::scan::Scan;
use crate::core::limits::Limits;
use crate::core::sha256::Sha256;
use crate::core::shards;

impl Pull<'_> {
    /// Fetches an artifact that the server has described.
    pub(super) async fn fetch_artifact(&self, artifact: &Artifact) -> Result<Pulled, Error> {
        let (text, header) = self.header(artifact).await?;
        let files = self.files(&header, artifact)?;
        let staging = self.stage(parent(self.target), self.target.file_name())?;
        let fetch = Fetch::new(self.server, &**self.progress);
        let download = Download { pull: self, header, text, files, artifact, staging: &staging, fetch: &fetch };
        let outcome = match download.run().await {
            Err((error, true)) if error.kind() == Kind::Integrity && error.problem().status == 0 => {
                // What an earlier pull has left may have been damaged on this disk; the server deserves a clean try.
                self.progress.note(&format!("{}; starting again from nothing", error.problem().message));
                staging.retain(|_| false)?;
                download.run().await
            }
            outcome => outcome,
        };
        if let Err((error, _)) = outcome {
            return Err(self.failed(staging, error));
        }
        self.publish(staging).await?;
        Ok(Pulled { hash: self.hash, round: None, group: None, bytes_received: fetch.received(), present: false })
    }

    /// The header as the server has it, and what it says.
    async fn header(&self, artifact: &Artifact) -> Result<(Vec<u8>, Arc<Header>), Error> {
        let url = self.server.url(&route::header(self.hash));
        let most = usize::try_from(Limits::DEFAULT.header_bytes).unwrap_or(usize::MAX);
        let text = self.found(async || {
            let answer = self.server.ask(self.server.request(Method::GET, url.clone())).await?;
            self.server.body(answer, most).await
        });
        let text = text.await?.ok_or_else(|| self.missing())?;
        let header = Header::parse(&text, &Limits::DEFAULT)
            .map_err(|error| Error::from(error).with("expected_hash", self.hash.to_string()))?;
        if header.content_hash != self.hash {
            return Err(DomainError::integrity("the header is another artifact's")
                .field("expected_hash", self.hash.to_string())
                .field("got_hash", header.content_hash.to_string())
                .into());
        }
        self.check_round(&header)?;
        let digest = BlobDigest::from_bytes(Sha256::digest(&text)).to_string();
        compare("the header", HEADER, Some(&artifact.header.sha256), &digest)?;
        Ok((text, Arc::new(header)))
    }

    /// What is to be fetched: exactly the files of the header, and the index if there is one.
    fn files(&self, header: &Header, artifact: &Artifact) -> Result<Vec<Remote>, Error> {
        let index = artifact.files.iter().any(|file| file.name == shards::INDEX).then_some(shards::INDEX);
        let names: Vec<&str> = header.weight_files.iter().map(String::as_str).chain(index).collect();
        let files = names.iter().filter_map(|name| artifact.files.iter().find(|file| file.name == *name));
        let files: Vec<Remote> = files
            .map(|file| Remote {
                url: self.server.url(&route::file(self.hash, &file.name)),
                name: file.name.clone(),
                len: file.size,
            })
            .collect();
        if files.len() == names.len() && files.len() == artifact.files.len() {
            return Ok(files);
        }
        Err(DomainError::integrity("the server lists other files than the header").into())
    }

    async fn publish(&self, staging: Staging) -> Result<(), Error> {
        match staging.publish(self.target) {
            Ok(()) => Ok(()),
            Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {
                // Another pull was faster. What counts is what lies there now.
                staging.remove();
                let (target, hash) = (self.target.to_owned(), self.hash.to_string());
                let there = blocking(move || directory::verify(&target, Some(&hash), &Silent)).await;
                there.map(drop).map_err(|error| self.refuse(&error))
            }
            Err(error) => Err(Error::io("cannot rename the finished download to", self.target, &error)),
        }
    }
}

/// The download of one artifact into its staging directory.
struct Download<'a> {
    pull: &'a Pull<'a>,
    header: Arc<Header>,
    text: Vec<u8>,
    files: Vec<Remote>,
    artifact: &'a Artifact,
    staging: &'a Staging,
    fetch: &'a Fetch<'a>,
}

impl Download<'_> {
    /// Fetches and verifies everything. Beside an error: whether bytes of an earlier pull took part.
    async fn run(&self) -> Result<(), (Error, bool)> {
        let mut resumed = false;
        self.fetch_and_verify(&mut resumed).await.map_err(|error| (error, resumed))
    }

    async fn fetch_and_verify(&self, resumed: &mut bool) -> Result<(), Error> {
        self.prepare()?;
        let place = self.staging.path();
        let lens = self.files.iter().map(|file| Some(file.len)).collect();
        let scan = Arc::new(Mutex::new(Scan::new(Arc::clone(&self.header), lens, Limits::DEFAULT)));
        let mut sinks = Vec::with_capacity(self.files.len());
        let mut here = 0;
        for (index, file) in self.files.iter().enumerate() {
            let digests = Digests::Checkpoint(Arc::clone(&scan), index);
            let (place, name, len) = (place.to_owned(), file.name.clone(), file.len);
            let sink = blocking(move || Sink::open(&place, &name, len, digests)).await?;
            here += sink.at();
            sinks.push(sink);
        }
        *resumed = here > 0;
        let total: u64 = self.files.iter().map(|file| file.len).sum();
        check_room(place, total - here)?;
        self.pull.progress.begin(Phase::Receive, total, here);
        let mut behind = 0;
        for (file, sink) in self.files.iter().zip(sinks) {
            self.fetch.file(file, sink, behind).await?;
            behind += file.len;
        }
        self.verify(&scan).await
    }

    /// Leaves in the staging directory only what belongs to this artifact and this very header.
    fn prepare(&self) -> Result<(), Error> {
        let header = self.staging.path().join(HEADER);
        let same = fs::read(&header).is_ok_and(|there| there == self.text);
        let names: Vec<String> = self.files.iter().flat_map(|file| [file.name.clone(), tag_name(&file.name)]).collect();
        self.staging.retain(|name| same && (name == HEADER || names.iter().any(|known| name == known.as_str())))?;
        if !same {
            write_durably(&header, &self.text).map_err(|error| Error::io("cannot write", &header, &error))?;
        }
        Ok(())
    }

    /// Judges what has come by the hash that was asked for, and compares it with what the server told.
    async fn verify(&self, scan: &Arc<Mutex<Scan>>) -> Result<(), Error> {
        self.staging.retain(|name| name == HEADER || self.files.iter().any(|file| name == file.name.as_str()))?;
        let (place, hash) = (self.staging.path().to_owned(), self.pull.hash.to_string());
        let scan = Arc::clone(scan);
        let verified = blocking(move || {
            let directory = Directory::open(&place, Limits::DEFAULT)?;
            directory.settle(&mut lock(&scan), &mut directory.reader(), Some(&hash))
        });
        let verified = verified.await?;
        for own in verified.files() {
            let told = self.artifact.files.iter().find(|file| file.name == own.name).map(|file| &*file.blob_hash);
            compare("a file", &own.name, told, &own.digest.to_string())?;
        }
        for own in verified.groups() {
            let told = self.artifact.groups.iter().find(|group| group.name == own.name).map(|group| &*group.group_hash);
            compare("a parameter group", own.name, told, &own.digest.to_string())?;
        }
        Ok(())
    }
}

fn compare(what: &str, name: &str, told: Option<&str>, own: &str) -> Result<(), Error> {
    if told == Some(own) {
        return Ok(());
    }
    Err(DomainError::integrity(format!("{what} has another hash than the server says"))
        .field("name", name)
        .field("expected_hash", told)
        .field("got_hash", own)
        .into())
}

fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)?;
    fs::File::open(path)?.sync_all()
}

//! Fetching one parameter group into a file of its own.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use reqwest::Method;
use reqwest::header::CONTENT_DISPOSITION;

use super::error::Error;
use super::fetch::{Digests, Fetch, Remote, Sink, lock, tag_name, whole_length};
use super::offload::blocking;
use super::progress::{Phase, Progress};
use super::pull::{Pull, Pulled, PulledGroup};
use super::staging::{self, Staging, check_room, parent};
use crate::api::artifact::Artifact;
use crate::api::route;
use crate::core::checkpoint::SHARED_GROUPS;
use crate::core::digest::GroupHash;
use crate::core::error::DomainError;
use crate::core::intake::scan::PIECE;
use crate::core::sha256::Sha256;

impl Pull<'_> {
    /// A group of an artifact. That the group hash belongs to the artifact is the server's word; the bytes are not.
    pub(super) async fn fetch_group_of(&self, artifact: &Artifact, name: &str) -> Result<Pulled, Error> {
        let group = artifact.groups.iter().find(|group| group.name == name).ok_or_else(|| {
            Error::usage(format!("the artifact has no tensors in the group {name}"), "Pull the whole artifact.")
        })?;
        let hash = group.group_hash.parse().map_err(|error| {
            Error::unavailable(format!("the server names a group by something else: {error}"), "Check its address.")
        })?;
        let url = self.server.url(&route::group(self.hash, name));
        self.one_file(Remote { url, name: file_name(name), len: group.size }, hash).await
    }

    /// A group by its own hash.
    pub(super) async fn fetch_group(&self, name: Option<&str>) -> Result<Pulled, Error> {
        // The same 64 digits, taken as the name of a parameter group.
        let hash = GroupHash::from_bytes(*self.hash.as_bytes());
        let url = self.server.url(&route::params(hash));
        let head = self.found(async || self.server.ask(self.server.request(Method::HEAD, url.clone())).await);
        let head = head.await?.ok_or_else(|| self.missing())?;
        let len = whole_length(&head).ok_or_else(|| {
            Error::unavailable("the server does not tell the group's length", "Check the proxies on the way to it.")
        })?;
        let told = head.headers().get(CONTENT_DISPOSITION).and_then(|value| group_told(value.to_str().ok()?));
        let name = name.or(told).map_or_else(|| format!("params-{}.safetensors", &hash.to_string()[..12]), file_name);
        self.one_file(Remote { url, name, len }, hash).await
    }

    async fn one_file(&self, remote: Remote, hash: GroupHash) -> Result<Pulled, Error> {
        let place = self.target.join(&remote.name);
        let pulled = |bytes_received, present| Pulled {
            hash: self.hash,
            round: None,
            group: Some(PulledGroup { hash, file: remote.name.clone() }),
            bytes_received,
            present,
        };
        if fs::symlink_metadata(&place).is_ok() {
            let (file, progress) = (place.clone(), Arc::clone(self.progress));
            let there = blocking(move || hash_of(&file, &*progress)).await?;
            return if there == hash { Ok(pulled(0, true)) } else { Err(occupied(&place)) };
        }
        // Inside the directory where there is one, which may be a disk of its own; beside it where there is none yet.
        let exists = self.target.exists();
        let staging = if exists {
            self.stage(self.target, Some(OsStr::new(&remote.name)))?
        } else {
            self.stage(parent(self.target), self.target.file_name())?
        };
        let fetch = Fetch::new(self.server, &**self.progress);
        if let Err(error) = self.fetch_verified(&fetch, &staging, &remote, hash).await {
            return Err(self.failed(staging, error));
        }
        staging.retain(|name| name == remote.name.as_str())?;
        if exists || staging.publish(self.target).is_err() {
            let cannot = |error: io::Error| Error::io("cannot put the finished file at", &place, &error);
            fs::rename(staging.path().join(&remote.name), &place).map_err(cannot)?;
            staging::sync(self.target).map_err(cannot)?;
            staging.remove();
        }
        Ok(pulled(fetch.received(), false))
    }

    /// Fetches the file; once more from nothing where what an earlier pull has left spoils it.
    async fn fetch_verified(
        &self,
        fetch: &Fetch<'_>,
        staging: &Staging,
        remote: &Remote,
        hash: GroupHash,
    ) -> Result<(), Error> {
        let tag = tag_name(&remote.name);
        staging.retain(|name| name == remote.name.as_str() || name == tag.as_str())?;
        loop {
            let hasher = Arc::new(Mutex::new(Sha256::new()));
            let (path, name, len) = (staging.path().to_owned(), remote.name.clone(), remote.len);
            let digests = Digests::Plain(Arc::clone(&hasher));
            let sink = blocking(move || Sink::open(&path, &name, len, digests)).await?;
            let left = sink.at();
            check_room(staging.path(), len - left)?;
            self.progress.begin(Phase::Receive, len, left);
            fetch.file(remote, sink, 0).await?;
            let got = GroupHash::from_bytes(lock(&hasher).clone().finalize());
            if got == hash {
                return Ok(());
            }
            if left == 0 {
                return Err(DomainError::integrity("the parameter group has another hash than it was asked for by")
                    .field("expected_hash", hash.to_string())
                    .field("got_hash", got.to_string())
                    .into());
            }
            self.progress.note("what an earlier pull has left is damaged; starting again from nothing");
            staging.retain(|_| false)?;
        }
    }
}

fn file_name(group: &str) -> String {
    format!("{group}.safetensors")
}

fn hash_of(path: &Path, progress: &dyn Progress) -> Result<GroupHash, Error> {
    let cannot = |error: io::Error| Error::io("cannot read", path, &error);
    if !fs::symlink_metadata(path).map_err(cannot)?.is_file() {
        return Err(occupied(path));
    }
    let mut file = fs::File::open(path).map_err(cannot)?;
    progress.begin(Phase::Verify, file.metadata().map_err(cannot)?.len(), 0);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; PIECE];
    loop {
        match io::Read::read(&mut file, &mut buffer).map_err(cannot)? {
            0 => return Ok(GroupHash::from_bytes(hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
        progress.at(hasher.len());
    }
}

fn occupied(path: &Path) -> Error {
    Error::usage(
        format!("{} exists and is not this parameter group", path.display()),
        "Name another directory, or remove this file.",
    )
}

/// The group that a `Content-Disposition` names; nothing but a group that exists is believed.
fn group_told(value: &str) -> Option<&'static str> {
    SHARED_GROUPS.into_iter().find(|group| value.contains(&format!("filename=\"{group}.safetensors\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_that_exist_become_file_names() {
        assert_eq!(group_told("attachment; filename=\"encoder.safetensors\""), Some("encoder"));
        assert_eq!(group_told("attachment; filename=\"predictor.safetensors\"; x=1"), Some("predictor"));
        assert_eq!(group_told("attachment; filename=\"../encoder.safetensors\""), None);
        assert_eq!(group_told("inline"), None);
    }
}

-- A stored file. The key is random and means nothing; this row gives it its meaning.
create table blobs (
    digest text not null primary key check (length(digest) = 64),
    blob_key text not null unique,
    size integer not null check (size >= 0),
    -- What the file looked like to the file system when its bytes were last known to be right.
    stamp text not null,
    damaged_at integer
) strict;

create table artifacts (
    content_hash text not null primary key check (length(content_hash) = 64),
    header blob not null,
    header_digest text not null check (length(header_digest) = 64),
    schema_version integer not null,
    round_index integer not null check (round_index >= 0),
    parent_hash text check (length(parent_hash) = 64),
    config_hash text not null check (length(config_hash) = 64),
    tensor_count integer not null,
    size integer not null,
    received_at integer not null,
    verified_at integer not null,
    verified_how text not null
) strict;

create index artifacts_parent on artifacts (parent_hash, content_hash);

create table artifact_files (
    content_hash text not null references artifacts (content_hash),
    position integer not null,
    name text not null,
    digest text not null references blobs (digest),
    primary key (content_hash, position),
    unique (content_hash, name)
) strict;

create index artifact_files_digest on artifact_files (digest);

create table artifact_groups (
    content_hash text not null references artifacts (content_hash),
    position integer not null,
    name text not null,
    group_hash text not null check (length(group_hash) = 64),
    size integer not null,
    tensor_count integer not null,
    primary key (content_hash, position)
) strict;

create index artifact_groups_hash on artifact_groups (group_hash, content_hash);

create table uploads (
    id text not null primary key,
    content_hash text not null check (length(content_hash) = 64),
    header blob not null,
    header_digest text not null check (length(header_digest) = 64),
    weight_files integer not null check (weight_files > 0),
    state text not null check (state in ('open', 'finished', 'refused', 'aborted')),
    -- The refusal as a problem document.
    problem text,
    -- Digests that span files, with a checksum of their own; recomputed when in doubt.
    walks blob,
    created_at integer not null,
    expires_at integer not null
) strict;

create index uploads_expiry on uploads (expires_at);

create table upload_files (
    upload_id text not null references uploads (id) on delete cascade,
    position integer not null,
    blob_key text,
    stored integer not null check (stored >= 0),
    length integer,
    -- The file's own digest after `stored` bytes.
    digest_state blob,
    -- Counts the writers; only the newest may save progress.
    writer integer not null,
    primary key (upload_id, position)
) strict;

create index upload_files_key on upload_files (blob_key);

-- Refusals and findings that must never be swallowed.
create table audit_records (
    id integer primary key,
    at integer not null,
    code text not null,
    subject text not null,
    detail text not null
) strict;

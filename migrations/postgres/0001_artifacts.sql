-- A stored file. The key is random and means nothing; this row gives it its meaning.
create table blobs (
    digest text collate "C" not null primary key check (length(digest) = 64),
    blob_key text collate "C" not null unique,
    size bigint not null check (size >= 0),
    -- What the file looked like to the file system when its bytes were last known to be right.
    stamp text collate "C" not null,
    damaged_at bigint
);

create table artifacts (
    content_hash text collate "C" not null primary key check (length(content_hash) = 64),
    header bytea not null,
    header_digest text collate "C" not null check (length(header_digest) = 64),
    schema_version bigint not null,
    round_index bigint not null check (round_index >= 0),
    parent_hash text collate "C" check (length(parent_hash) = 64),
    config_hash text collate "C" not null check (length(config_hash) = 64),
    tensor_count bigint not null,
    size bigint not null,
    received_at bigint not null,
    verified_at bigint not null,
    verified_how text collate "C" not null
);

create index artifacts_parent on artifacts (parent_hash, content_hash);

create table artifact_files (
    content_hash text collate "C" not null references artifacts (content_hash),
    position bigint not null,
    name text collate "C" not null,
    digest text collate "C" not null references blobs (digest),
    primary key (content_hash, position),
    unique (content_hash, name)
);

create index artifact_files_digest on artifact_files (digest);

create table artifact_groups (
    content_hash text collate "C" not null references artifacts (content_hash),
    position bigint not null,
    name text collate "C" not null,
    group_hash text collate "C" not null check (length(group_hash) = 64),
    size bigint not null,
    tensor_count bigint not null,
    primary key (content_hash, position)
);

create index artifact_groups_hash on artifact_groups (group_hash, content_hash);

create table uploads (
    id text collate "C" not null primary key,
    content_hash text collate "C" not null check (length(content_hash) = 64),
    header bytea not null,
    header_digest text collate "C" not null check (length(header_digest) = 64),
    weight_files bigint not null check (weight_files > 0),
    state text collate "C" not null check (state in ('open', 'finished', 'refused', 'aborted')),
    -- The refusal as a problem document.
    problem text collate "C",
    -- Digests that span files, with a checksum of their own; recomputed when in doubt.
    walks bytea,
    created_at bigint not null,
    expires_at bigint not null
);

create index uploads_expiry on uploads (expires_at);

create table upload_files (
    upload_id text collate "C" not null references uploads (id) on delete cascade,
    position bigint not null,
    blob_key text collate "C",
    stored bigint not null check (stored >= 0),
    length bigint,
    -- The file's own digest after `stored` bytes.
    digest_state bytea,
    -- Counts the writers; only the newest may save progress.
    writer bigint not null,
    primary key (upload_id, position)
);

create index upload_files_key on upload_files (blob_key);

-- Refusals and findings that must never be swallowed.
create table audit_records (
    id bigint generated always as identity primary key,
    at bigint not null,
    code text collate "C" not null,
    subject text collate "C" not null,
    detail text collate "C" not null
);

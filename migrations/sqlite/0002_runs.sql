-- A run, its pins and where it stands. Everything that a commit changes of a run is in this one row, so that two
-- commits meet here.
create table runs (
    run text not null primary key,
    consortium text not null,
    wmcp_version text not null,
    probe_hash text check (length(probe_hash) = 64),
    probe_version integer,
    config_hash text check (length(config_hash) = 64),
    -- The warm-start pin as JSON.
    warm_start text,
    -- Declared participants as a sorted JSON array.
    participants text not null,
    min_participants integer,
    visibility text not null check (visibility in ('members', 'released', 'public')),
    created_at integer not null,
    -- The newest round; null until round 0.
    head_round integer,
    head_hash text check (length(head_hash) = 64),
    -- The newest ledger record.
    ledger_round integer,
    ledger_tail text check (length(ledger_tail) = 64),
    ledger_count integer not null default 0,
    -- Aborts of the round that is open now.
    aborted integer not null default 0,
    -- The newest event.
    event_seq integer not null default 0,
    check ((head_round is null) = (head_hash is null)),
    check ((ledger_round is null) = (ledger_tail is null))
) strict;

create index runs_created on runs (created_at, run);

create table rounds (
    run text not null references runs (run),
    round_index integer not null check (round_index >= 0),
    content_hash text not null references artifacts (content_hash),
    parent_hash text check (length(parent_hash) = 64),
    -- Digest of the header as it was committed.
    header_digest text not null check (length(header_digest) = 64),
    -- Digest of the tensors' names and shapes.
    structure text not null check (length(structure) = 64),
    schema_version integer not null,
    theta_hash text check (length(theta_hash) = 64),
    phi_hash text check (length(phi_hash) = 64),
    size integer not null,
    -- 1, and one more for each abort before it.
    attempt integer not null,
    committed_at integer not null,
    primary key (run, round_index),
    unique (run, content_hash),
    -- No fork.
    unique (run, parent_hash)
) strict;

create index rounds_hash on rounds (content_hash, run);
create index rounds_theta on rounds (run, theta_hash);
create index rounds_phi on rounds (run, phi_hash);

-- One line of a run's ledger.
create table ledger_records (
    run text not null references runs (run),
    -- The round t that was trained; its checkpoint is the one with round index t + 1.
    round_index integer not null check (round_index >= 0),
    record_hash text not null check (length(record_hash) = 64),
    prev_record_hash text check (length(prev_record_hash) = 64),
    global_model_hash text not null check (length(global_model_hash) = 64),
    -- The line as it is exported, without its end.
    line text not null,
    primary key (run, round_index),
    -- One record follows another, and one only is the first.
    unique (run, record_hash)
) strict;

create unique index ledger_one_successor on ledger_records (run, coalesce(prev_record_hash, ''));

create table aborts (
    run text not null references runs (run),
    event_seq integer not null,
    round_index integer not null,
    attempt integer not null,
    reason_code text not null,
    detail text,
    at integer not null,
    primary key (run, event_seq)
) strict;

-- What happened, for those who wait for news.
create table events (
    run text not null references runs (run),
    event_seq integer not null,
    kind text not null,
    at integer not null,
    data text not null,
    primary key (run, event_seq)
) strict;

create table documents (
    run text not null references runs (run),
    kind text not null,
    digest text not null check (length(digest) = 64),
    -- The newest first.
    seq integer not null,
    schema_version integer not null,
    size integer not null,
    -- The bytes as they came, or null when they lie in the store as a blob.
    body blob,
    -- A line of JSON with what a list shows of it.
    summary text not null,
    received_at integer not null,
    primary key (run, kind, digest)
) strict;

create unique index documents_seq on documents (run, seq);

-- Which commitment holds for a participant from which round on.
create table commitments (
    run text not null references runs (run),
    participant text not null,
    from_round integer not null check (from_round >= 0),
    merkle_root text not null check (length(merkle_root) = 64),
    digest text not null check (length(digest) = 64),
    received_at integer not null,
    primary key (run, participant, from_round)
) strict;

-- The answers to commits that named a key.
create table idempotency_keys (
    run text not null references runs (run),
    idempotency_key text not null,
    request_digest text not null check (length(request_digest) = 64),
    round_index integer not null,
    at integer not null,
    primary key (run, idempotency_key)
) strict;

-- Contradictions that a run was confronted with; an audit shows them for ever.
create table findings (
    id integer primary key,
    run text not null references runs (run),
    at integer not null,
    code text not null,
    round_index integer not null,
    expected text,
    found text,
    -- The same contradiction is told once.
    unique (run, code, round_index, expected, found)
) strict;

-- Which round an open session is for, so that a coordinator that lost its memory finds it again.
alter table uploads add column round_index integer;
alter table uploads add column parent_hash text;

-- A run, its pins and where it stands. Everything that a commit changes of a run is in this one row, so that two
-- commits meet here.
create table runs (
    run text collate "C" not null primary key,
    consortium text collate "C" not null,
    wmcp_version text collate "C" not null,
    probe_hash text collate "C" check (length(probe_hash) = 64),
    probe_version bigint,
    config_hash text collate "C" check (length(config_hash) = 64),
    -- The warm-start pin as JSON.
    warm_start text collate "C",
    -- Declared participants as a sorted JSON array.
    participants text collate "C" not null,
    min_participants bigint,
    visibility text collate "C" not null check (visibility in ('members', 'released', 'public')),
    created_at bigint not null,
    -- The newest round; null until round 0.
    head_round bigint,
    head_hash text collate "C" check (length(head_hash) = 64),
    -- The newest ledger record.
    ledger_round bigint,
    ledger_tail text collate "C" check (length(ledger_tail) = 64),
    ledger_count bigint not null default 0,
    -- Aborts of the round that is open now.
    aborted bigint not null default 0,
    -- The newest event.
    event_seq bigint not null default 0,
    check ((head_round is null) = (head_hash is null)),
    check ((ledger_round is null) = (ledger_tail is null))
);

create index runs_created on runs (created_at, run);

create table rounds (
    run text collate "C" not null references runs (run),
    round_index bigint not null check (round_index >= 0),
    content_hash text collate "C" not null references artifacts (content_hash),
    parent_hash text collate "C" check (length(parent_hash) = 64),
    -- Digest of the header as it was committed.
    header_digest text collate "C" not null check (length(header_digest) = 64),
    -- Digest of the tensors' names and shapes.
    structure text collate "C" not null check (length(structure) = 64),
    schema_version bigint not null,
    theta_hash text collate "C" check (length(theta_hash) = 64),
    phi_hash text collate "C" check (length(phi_hash) = 64),
    size bigint not null,
    -- 1, and one more for each abort before it.
    attempt bigint not null,
    committed_at bigint not null,
    primary key (run, round_index),
    unique (run, content_hash),
    -- No fork.
    unique (run, parent_hash)
);

create index rounds_hash on rounds (content_hash, run);
create index rounds_theta on rounds (run, theta_hash);
create index rounds_phi on rounds (run, phi_hash);

-- One line of a run's ledger.
create table ledger_records (
    run text collate "C" not null references runs (run),
    -- The round t that was trained; its checkpoint is the one with round index t + 1.
    round_index bigint not null check (round_index >= 0),
    record_hash text collate "C" not null check (length(record_hash) = 64),
    prev_record_hash text collate "C" check (length(prev_record_hash) = 64),
    global_model_hash text collate "C" not null check (length(global_model_hash) = 64),
    -- The line as it is exported, without its end.
    line text collate "C" not null,
    primary key (run, round_index),
    -- One record follows another, and one only is the first.
    unique (run, record_hash)
);

create unique index ledger_one_successor on ledger_records (run, coalesce(prev_record_hash, ''));

create table aborts (
    run text collate "C" not null references runs (run),
    event_seq bigint not null,
    round_index bigint not null,
    attempt bigint not null,
    reason_code text collate "C" not null,
    detail text collate "C",
    at bigint not null,
    primary key (run, event_seq)
);

-- What happened, for those who wait for news.
create table events (
    run text collate "C" not null references runs (run),
    event_seq bigint not null,
    kind text collate "C" not null,
    at bigint not null,
    data text collate "C" not null,
    primary key (run, event_seq)
);

create table documents (
    run text collate "C" not null references runs (run),
    kind text collate "C" not null,
    digest text collate "C" not null check (length(digest) = 64),
    -- The newest first.
    seq bigint not null,
    schema_version bigint not null,
    size bigint not null,
    -- The bytes as they came, or null when they lie in the store as a blob.
    body bytea,
    -- A line of JSON with what a list shows of it.
    summary text collate "C" not null,
    received_at bigint not null,
    primary key (run, kind, digest)
);

create unique index documents_seq on documents (run, seq);

-- Which commitment holds for a participant from which round on.
create table commitments (
    run text collate "C" not null references runs (run),
    participant text collate "C" not null,
    from_round bigint not null check (from_round >= 0),
    merkle_root text collate "C" not null check (length(merkle_root) = 64),
    digest text collate "C" not null check (length(digest) = 64),
    received_at bigint not null,
    primary key (run, participant, from_round)
);

-- The answers to commits that named a key.
create table idempotency_keys (
    run text collate "C" not null references runs (run),
    idempotency_key text collate "C" not null,
    request_digest text collate "C" not null check (length(request_digest) = 64),
    round_index bigint not null,
    at bigint not null,
    primary key (run, idempotency_key)
);

-- Contradictions that a run was confronted with; an audit shows them for ever.
create table findings (
    id bigint generated always as identity primary key,
    run text collate "C" not null references runs (run),
    at bigint not null,
    code text collate "C" not null,
    round_index bigint not null,
    expected text collate "C",
    found text collate "C",
    -- The same contradiction is told once.
    unique (run, code, round_index, expected, found)
);

-- Which round an open session is for, so that a coordinator that lost its memory finds it again.
alter table uploads add column round_index bigint;
alter table uploads add column parent_hash text collate "C";

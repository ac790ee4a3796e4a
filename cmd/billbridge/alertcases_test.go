package main

// An alertCase has the series of a case in which exactly one alert with this name fires. The other series are beside the case.
type alertCase struct {
	alert         string
	labels        string // without severity
	silent, fires string // the times since the start of the series; one value is a minute
	summary       string
	series        []string
}

// In values, 0x9 is 0 and nine more, 0+2x9 grows by 2 each minute, and _x9 is missing.
var alertCases = []alertCase{
	{"BillbridgeDown", "job=a", "10m", "12m", "No gateway of job a answers Prometheus.", []string{
		`up{job="a",instance="1"} 1x9 0x9`, `billbridge_build_info{job="a",instance="1",version="1"} 1x9 _x9`,
		`up{job="a",instance="2"} 1x9 0x9`, `billbridge_build_info{job="a",instance="2",version="1"} 1x9 _x9`,
		`up{job="b",instance="1"} 1x19`, `billbridge_build_info{job="b",instance="1",version="1"} 1x19`, // one of two is up
		`up{job="b",instance="2"} 1x9 0x9`, `billbridge_build_info{job="b",instance="2",version="1"} 1x9 _x9`,
		`up{job="postgres",instance="3"} 0x19`, // no gateway
	}},
	{"BillbridgeDown", "", "10m", "17m", "No gateway answers Prometheus.", []string{
		`billbridge_build_info{job="a",instance="1"} 1x9 _x9`, // the target was removed
		`up{job="postgres",instance="3"} 0x19`,
	}},
	{"BillbridgeInstanceDown", "job=a instance=1", "14m", "16m", "Gateway 1 of job a does not answer Prometheus.", []string{
		`up{job="a",instance="1"} 1x9 0x9`, `billbridge_build_info{job="a",instance="1",version="1"} 1x9 _x9`,
		`up{job="a",instance="2"} 1x19`, `billbridge_build_info{job="a",instance="2",version="1"} 1x19`,
		`up{job="postgres",instance="3"} 0x19`,
	}},
	{"BillbridgeReloadRefused", "job=a instance=1", "10m", "12m", "Gateway 1 of job a refused its new config and continues with the old one.", []string{
		`billbridge_config_last_reload_successful{job="a",instance="1"} 1x9 0x9`,
		`billbridge_config_last_reload_successful{job="a",instance="2"} 1x19`,
	}},
	{"BillbridgeStoreDown", "job=a instance=1", "11m", "13m", "Gateway 1 of job a cannot write to its store.", []string{
		`billbridge_store_up{job="a",instance="1"} 1x9 0x9`,
		`billbridge_store_up{job="a",instance="2"} 1x9 0x1 1x9`, // for less than two minutes
	}},
	{"BillbridgeStoreChanged", "job=a instance=1", "9m", "10m", "Rows of the store of gateway 1 of job a were changed without store.key.", []string{
		`billbridge_store_changed_rows_total{job="a",instance="1"} 0x9 1x9`,
		`billbridge_store_changed_rows_total{job="a",instance="2"} 7x19`,
	}},
	{"BillbridgeStoreClock", "job=a instance=1", "14m", "16m", "The clock of gateway 1 of job a differs from the clock of the store by 2d 0h 0m 0s.", []string{
		`billbridge_store_clock_offset_seconds{job="a",instance="1"} 0x9 -172800x9`,
		`billbridge_store_clock_offset_seconds{job="a",instance="2"} -80000x19`,
	}},
	{"BillbridgeLogLinesLost", "job=a instance=1", "9m", "10m", "Gateway 1 of job a could not write lines of its log.", []string{
		`billbridge_log_lines_lost_total{job="a",instance="1"} 0x9 3x9`,
		`billbridge_log_lines_lost_total{job="a",instance="2"} 7x19`,
	}},
	{"BillbridgePanic", "job=a instance=1", "9m", "10m", "Gateway 1 of job a has a fault in its program.", []string{
		`billbridge_panics_total{job="a",instance="1"} 0x9 1x9`,
		`billbridge_panics_total{job="a",instance="2"} 7x19`,
	}},
	{"BillbridgeOverloaded", "job=a limit=memory", "12m", "14m", "Gateways of job a refuse requests, because limits.memory is reached.", []string{
		`billbridge_requests_limited_total{job="a",instance="1",limit="memory"} 0x9 0+1x9`,
		`billbridge_requests_limited_total{job="b",instance="2",limit="memory"} 0x9 90x9`, // once,
		`billbridge_requests_limited_total{job="a",instance="1",limit="in_flight"} 5x19`,
		`billbridge_requests_limited_total{job="a",instance="1",limit="partner_rate"} 0+9x19`,
	}},
	{"BillbridgePartnerLimited", "job=a limit=partner_rate", "24m", "26m", "Gateways of job a refuse calls of a partner over its limit (partner_rate).", []string{
		`billbridge_requests_limited_total{job="a",instance="1",limit="partner_rate"} 0x9 0+1x19`,
		`billbridge_requests_limited_total{job="a",instance="1",limit="partner_in_flight"} 0x19 1x9`, // not for 15 minutes
		`billbridge_requests_limited_total{job="a",instance="1",limit="memory"} 0+9x29`,
	}},
	{"BillbridgeConnectionsRefused", "job=a limit=address", "11m", "13m", "Gateways of job a close new connections, because a limit of connections (address) is reached.", []string{
		`billbridge_connections_refused_total{job="a",instance="1",limit="address"} 0x9 1x9`,
		`billbridge_connections_refused_total{job="a",instance="1",limit="all"} 4x19`,
	}},
	{"BillbridgeAdminTokenWrong", "job=a instance=1", "9m", "11m", "The admin listener of gateway 1 of job a receives wrong tokens.", []string{
		`billbridge_admin_token_refused_total{job="a",instance="1",reason="wrong"} 0x9 8x9`,
		`billbridge_admin_token_refused_total{job="a",instance="2",reason="wrong"} 0x9 4x9`,
		`billbridge_admin_token_refused_total{job="a",instance="2",reason="missing"} 0+9x19`,
	}},
	{"BillbridgeFramingRefused", "job=a reason=two_lengths", "9m", "11m", "Gateways of job a refuse requests whose framing is ambiguous (two_lengths).", []string{
		`billbridge_framing_refused_total{job="a",instance="1",reason="two_lengths"} 0x9 8x9`,
		`billbridge_framing_refused_total{job="a",instance="2",reason="two_lengths"} 0x9 8x9`,
		`billbridge_framing_refused_total{job="a",instance="1",reason="bare_lf"} 0x9 8x9`,
	}},
	{"BillbridgeTLSFailures", "job=a reason=version", "9m", "11m", "TLS handshakes with gateways of job a fail (version).", []string{
		`billbridge_tls_handshake_failures_total{job="a",instance="1",reason="version"} 0x9 8x9`,
		`billbridge_tls_handshake_failures_total{job="a",instance="2",reason="version"} 0x9 8x9`,
		`billbridge_tls_handshake_failures_total{job="a",instance="1",reason="cipher"} 0x9 8x9`,
	}},
	{"BillbridgeCertificateEnds", "job=a kind=server name=tls", "5m", "7m", "A certificate of job a (server tls) ends in 20d 23h 53m 0s.", []string{
		`billbridge_certificate_not_after_seconds{job="a",instance="1",kind="server",name="tls"} 1814400x40`, // 21 days
		`billbridge_certificate_not_after_seconds{job="a",instance="2",kind="server",name="tls"} 2814400x40`,
		`billbridge_certificate_not_after_seconds{job="a",instance="1",kind="client",name="new"} 2814400x40`,
	}},
	{"BillbridgeCertificateEndsSoon", "job=a kind=upstream name=new", "4m", "6m", "A certificate of job a (upstream new) ends in -1h 6m 0s.", []string{
		`billbridge_certificate_not_after_seconds{job="a",instance="1",kind="upstream",name="new"} -3600x40`,
		`billbridge_certificate_not_after_seconds{job="a",instance="1",kind="server",name="tls"} 2814400x40`,
	}},

	{"BillbridgeUnknownOutcome", "job=a operation=bill.create upstream=new", "9m", "10m", "Writes bill.create to upstream new (job a) have an unknown outcome.", []string{
		`billbridge_requests_total{job="a",instance="1",operation="bill.create",upstream="new",code="none",status="504"} 0x9 1x9`,
		`billbridge_requests_total{job="a",instance="1",operation="bill.read",upstream="new",code="ERROR",status="504"} 0+1x19`, // a read
		`billbridge_requests_total{job="a",instance="1",operation="bill.cancel",upstream="new",code="none",status="200"} 0+1x19`,
		`billbridge_requests_total{job="a",instance="1",operation="bill.destroy",upstream="new",code="none",status="502"} 3x19`,
	}},
	{"BillbridgeManyUnknownOutcomes", "job=a upstream=new", "10m", "12m", "Many writes to upstream new (job a) have an unknown outcome.", []string{
		`billbridge_requests_total{job="a",instance="1",operation="bill.create",upstream="new",code="none",status="504"} 0x9 4x9`,
		`billbridge_requests_total{job="a",instance="1",operation="bill.cancel",upstream="new",code="none",status="502"} 0x9 4x9`,
		`billbridge_requests_total{job="a",instance="1",operation="bill.create",upstream="old",code="none",status="504"} 0x9 3x9`,
		`billbridge_requests_total{job="a",instance="1",operation="bill.read",upstream="old",code="ERROR",status="504"} 0+9x19`,
		`billbridge_requests_total{job="a",instance="1",operation="bill.cancel",upstream="old",code="none",status="200"} 0+9x19`,
	}},
	{"BillbridgeUpstreamErrors", "job=a upstream=new", "13m", "20m", "10% of the calls to upstream new (job a) have no valid reply.", []string{
		`billbridge_upstream_errors_total{job="a",instance="1",upstream="new",reason="reset"} 0x9 0+10x14`,
		`billbridge_requests_total{job="a",instance="1",operation="bill.read",upstream="new",code="0000",status="200"} 0+100x24`,
		`billbridge_upstream_errors_total{job="a",instance="1",upstream="old",reason="reset"} 0+4x24`, // 4%
		`billbridge_requests_total{job="a",instance="1",operation="bill.read",upstream="old",code="0000",status="200"} 0+100x24`,
		`billbridge_upstream_errors_total{job="a",instance="1",upstream="idle",reason="reset"} 0+1x24`, // few calls
		`billbridge_requests_total{job="a",instance="1",operation="bill.read",upstream="idle",code="0000",status="200"} 0+1x24`,
	}},
	{"BillbridgeExtraReplies", "job=a upstream=new", "9m", "10m", "Upstream new (job a) sends something that belongs to no call.", []string{
		`billbridge_upstream_extra_replies_total{job="a",instance="1",upstream="new"} 0x9 1x9`,
		`billbridge_upstream_extra_replies_total{job="a",instance="1",upstream="old"} 3x19`,
	}},
	{"BillbridgeSlow", "job=a upstream=new", "18m", "26m", "The slowest 1% of the calls to upstream new (job a) take more than 4.975s.", []string{
		`billbridge_request_duration_seconds_bucket{job="a",instance="1",operation="bill.read",upstream="new",le="2.5"} 0+50x9 500x19`,
		`billbridge_request_duration_seconds_bucket{job="a",instance="1",operation="bill.read",upstream="new",le="5"} 0+50x29`,
		`billbridge_request_duration_seconds_bucket{job="a",instance="1",operation="bill.read",upstream="new",le="+Inf"} 0+50x29`,
		`billbridge_request_duration_seconds_bucket{job="a",instance="1",operation="bill.read",upstream="old",le="2.5"} 0+50x29`,
		`billbridge_request_duration_seconds_bucket{job="a",instance="1",operation="bill.read",upstream="old",le="+Inf"} 0+50x29`,
		`billbridge_request_duration_seconds_bucket{job="a",instance="1",operation="none",upstream="none",le="2.5"} 0x29`, // a slow body of a partner
		`billbridge_request_duration_seconds_bucket{job="a",instance="1",operation="none",upstream="none",le="5"} 0+50x29`,
		`billbridge_request_duration_seconds_bucket{job="a",instance="1",operation="none",upstream="none",le="+Inf"} 0+50x29`,
	}},
	{"BillbridgeUpstreamBusy", "job=a upstream=new", "11m", "13m", "Calls to upstream new (job a) get no connection within upstreams.new.wait.", []string{
		`billbridge_upstream_errors_total{job="a",instance="1",upstream="new",reason="busy"} 0x9 1x9`,
		`billbridge_upstream_errors_total{job="a",instance="1",upstream="old",reason="reset"} 0+9x19`,
	}},
	{"BillbridgeBreakerOpen", "job=a upstream=new", "10m", "13m", "The breaker of upstream new is open in 2 gateways of job a.", []string{
		`billbridge_upstream_breaker_state{job="a",instance="1",upstream="new"} 0x9 2 1 2 1 2 1`,
		`billbridge_upstream_breaker_state{job="a",instance="2",upstream="new"} 0x9 2x5`,
		`billbridge_upstream_breaker_state{job="a",instance="3",upstream="new"} 0x15`,
		`billbridge_upstream_breaker_state{job="a",instance="1",upstream="old"} 0x15`,
	}},
	{"BillbridgeReplyMismatch", "job=a operation=bill.read upstream=new field=price", "9m", "10m", "Field price in replies of upstream new to bill.read (job a) does not have its documented type.", []string{
		`billbridge_reply_mismatches_total{job="a",instance="1",operation="bill.read",upstream="new",field="price"} 0x9 1x9`,
		`billbridge_reply_mismatches_total{job="a",instance="1",operation="bill.read",upstream="new",field="apprDt"} 2x19`,
	}},

	{"BillbridgeBillDoubled", "job=a", "9m", "10m", "A bill is at both backends (job a). An operator must decide.", []string{
		`billbridge_rollout_doubled_total{job="a",instance="1"} 0x9 1x9`,
		`billbridge_rollout_doubled_total{job="b",instance="2"} 2x19`,
	}},
	{"BillbridgeLedgerUnreachable", "job=a", "12m", "14m", "Gateways of job a refuse calls, because they cannot reach the ledger.", []string{
		`billbridge_rollout_refused_total{job="a",instance="1",reason="store"} 0x9 0+1x9`,
		`billbridge_rollout_refused_total{job="c",instance="3",reason="store"} 0x9 90x9`, // once,
		`billbridge_rollout_refused_total{job="b",instance="2",reason="unclear"} 0+1x19`,
	}},
	{"BillbridgePartnerBarred", "job=a", "9m", "10m", "The old backend refuses a partner whose new bills go to the new backend (job a).", []string{
		`billbridge_rollout_refused_total{job="a",instance="1",reason="barred"} 0x9 1x9`,
		`billbridge_rollout_refused_total{job="b",instance="2",reason="unclear"} 0+1x19`,
	}},
	{"BillbridgeOwnerUnclear", "job=a", "14m", "16m", "Gateways of job a refuse calls, because the owning backend of the bill is not known.", []string{
		`billbridge_rollout_refused_total{job="a",instance="1",reason="unclear"} 0x9 0+1x9`,
		`billbridge_rollout_refused_total{job="b",instance="2",reason="unclear"} 0x9 1x9`, // once
		`billbridge_rollout_refused_total{job="c",instance="3",reason="barred"} 0+1x19`,
	}},
	{"BillbridgeStoreLostWrites", "job=a outcome=lost", "9m", "10m", "The store of job a lacks acknowledged writes after a fail-over, or may lack some (lost).", []string{
		`billbridge_store_failovers_total{job="a",instance="1",outcome="lost"} 0x9 1x9`,
		`billbridge_store_failovers_total{job="a",instance="2",outcome="lost"} 0x9 1x9`,
		`billbridge_store_failovers_total{job="b",instance="3",outcome="proven"} 0x9 1x9`,
		`billbridge_store_failovers_total{job="b",instance="3",outcome="unproven"} 0x19`,
	}},
	{"BillbridgeRolloutNotBegun", "job=a", "9m", "11m", "The store of job a is new, and billbridge rollout begin was not run.", []string{
		`billbridge_rollout_begun{job="a",instance="1"} 0x19`,
		`billbridge_rollout_begun{job="b",instance="2"} 1x19`,
	}},
	{"BillbridgeKillSwitchOn", "job=a", "69m", "71m", "The kill switch of job a has been on for an hour or longer.", []string{
		`billbridge_rollout_stopped{job="a",instance="1"} 0x9 1x70`,
		`billbridge_rollout_stopped{job="b",instance="2"} 0x79`,
	}},
	{"BillbridgePartnersUnmoved", "job=a", "69m", "71m", "Partners of job a that have been in shadow or canary for 14 days: 2.", []string{
		`billbridge_rollout_partners_unmoved{job="a",instance="1"} 0x9 2x70`,
		`billbridge_rollout_partners_unmoved{job="b",instance="2"} 0x79`,
	}},
	{"BillbridgeStoreDiskFull", "job=a instance=1", "14m", "16m", "The disk with the store of gateway 1 (job a) has 476.8MiB left.", []string{
		`billbridge_store_free_bytes{job="a",instance="1"} 2e9x9 5e8x9`,
		`billbridge_store_free_bytes{job="b",instance="2"} 2e9x19`,
	}},
	{"BillbridgeVerdictFail", "job=a", "14m", "16m", "Verdicts FAIL in the rollout report of job a: 2.", []string{
		`billbridge_rollout_verdicts{job="a",instance="1",verdict="FAIL"} 0x9 2x9`,
		`billbridge_rollout_verdicts{job="a",instance="2",verdict="FAIL"} 0x9 2x9`,
		`billbridge_rollout_verdicts{job="b",instance="3",verdict="FAIL"} 0x19`,
		`billbridge_rollout_verdicts{job="b",instance="3",verdict="INCONCLUSIVE"} 2x19`,
	}},
	{"BillbridgeComparisonsDropped", "job=a bound=bytes", "24m", "26m", "Gateways of job a drop comparisons of the backends, because a limit of rollout.shadow (bytes) is reached.", []string{
		`billbridge_rollout_comparisons_dropped_total{job="a",instance="1",bound="bytes"} 0x9 0+1x19`,
		`billbridge_rollout_comparisons_dropped_total{job="a",instance="1",bound="waiting"} 4x29`,
	}},

	{"BillbridgeCallbacksLate", "job=a upstream=new", "14m", "16m", "The oldest callback of upstream new (job a) has waited for 2h 0m 0s.", []string{
		`billbridge_callbacks_oldest_waiting_seconds{job="a",instance="1",upstream="new"} 0x9 7200x1 stale`, // the store is down
		`billbridge_callbacks_oldest_waiting_seconds{job="a",instance="2",upstream="new"} 0x9 7200x2 stale`,
		`billbridge_callbacks_oldest_waiting_seconds{job="a",instance="1",upstream="old"} 1800x19`,
	}},
	{"BillbridgeCallbacksDead", "job=a upstream=new", "14m", "16m", "Failed callbacks of upstream new (job a) that an operator must replay or drop: 3.", []string{
		`billbridge_callbacks_dead{job="a",instance="1",upstream="new"} 0x9 3x1 stale`, // the store is down
		`billbridge_callbacks_dead{job="a",instance="2",upstream="new"} 0x9 3x2 stale`,
		`billbridge_callbacks_dead{job="a",instance="1",upstream="old"} 0x19`,
	}},
	{"BillbridgeCallbacksSuperseded", "job=a upstream=new", "14m", "16m", "Partners answer callbacks of upstream new (job a) without a success, and newer ones of the same bills are delivered instead.", []string{
		`billbridge_callbacks_superseded_total{job="a",instance="1",upstream="new"} 0x9 1x9`,
		`billbridge_callbacks_superseded_total{job="a",instance="1",upstream="old"} 2x19`,
	}},
	{"BillbridgeCallbacksNotStored", "job=a upstream=new", "12m", "14m", "Gateways of job a cannot store callbacks (upstream new).", []string{
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="new",reason="store"} 0x9 0+1x9`,
		`billbridge_callbacks_refused_total{job="b",instance="2",upstream="new",reason="store"} 0x9 90x9`, // once,
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="old",reason="path"} 0+1x19`,
	}},
	{"BillbridgeCallbacksLost", "job=a upstream=new", "9m", "10m", "Callbacks of upstream new (job a) come to addresses that the store has lost.", []string{
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="new",reason="lost_address"} 0x9 1x9`,
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="old",reason="lost_address"} 3x19`,
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="none",reason="unknown_address"} 0+1x19`, // anybody can call
	}},
	{"BillbridgeCallbackOfAnother", "job=a upstream=new reason=another_partner", "9m", "10m", "Callbacks to an address of upstream new (job a) were refused (another_partner).", []string{
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="new",reason="another_partner"} 0x9 1x9`,
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="new",reason="another_bill"} 1x19`,
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="old",reason="path"} 0+1x19`,
	}},
	{"BillbridgeCallbacksForbidden", "job=a upstream=new", "14m", "16m", "Partners answer callbacks of upstream new (job a) with 403.", []string{
		`billbridge_callbacks_attempts_total{job="a",instance="1",upstream="new",outcome="forbidden"} 0x9 1x9`,
		`billbridge_callbacks_attempts_total{job="a",instance="1",upstream="old",outcome="status"} 0+1x19`,
	}},
	{"BillbridgeCallbacksRefused", "job=a upstream=new reason=no_key", "9m", "10m", "Gateways of job a refuse callbacks of upstream new (no_key).", []string{
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="new",reason="no_key"} 0x9 1x9`,
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="new",reason="type"} 1x19`,
		`billbridge_callbacks_refused_total{job="a",instance="1",upstream="none",reason="path"} 0+1x19`, // anybody can call
	}},
	{"BillbridgeCallbacksUnrecognised", "job=a upstream=new", "9m", "10m", "Upstream new (job a) sends callbacks that the table does not describe.", []string{
		`billbridge_callbacks_passed_total{job="a",instance="1",upstream="new",as="unrecognised"} 0x9 1x9`,
		`billbridge_callbacks_passed_total{job="a",instance="1",upstream="old",as="in form"} 0+1x19`,
	}},
	{"BillbridgeCallbackMismatch", "job=a upstream=new field=price", "9m", "10m", "Field price in callbacks of upstream new (job a) does not have its documented type.", []string{
		`billbridge_callbacks_fields_total{job="a",instance="1",upstream="new",what="mismatched",field="price"} 0x9 1x9`,
		`billbridge_callbacks_fields_total{job="a",instance="1",upstream="new",what="dropped",field="udItem"} 0+1x19`,
	}},
}

// The source of assets/dashboard.json. .ci/dashboard builds it with Grafana's SDK and compares; .ci/dashboard --update writes it.
//
// billbridge counts all outcomes from 0, so that a panel without traffic shows 0. "No data" means that no gateway is scraped, or that
// the gateways have no such part: no rollout, no callbacks.
import * as common from '@grafana/grafana-foundation-sdk/common';
import * as grafana from '@grafana/grafana-foundation-sdk/dashboard';
import * as prometheus from '@grafana/grafana-foundation-sdk/prometheus';
import * as stat from '@grafana/grafana-foundation-sdk/stat';
import * as timeseries from '@grafana/grafana-foundation-sdk/timeseries';
import * as units from '@grafana/grafana-foundation-sdk/units';

const source = { type: 'prometheus', uid: '${datasource}' };
const chosen = 'job=~"$job",instance=~"$instance"';
const ofUpstream = chosen + ',upstream="$upstream"';
const columns = 24;

/** @param {string} metric @param {string} more */
const perSecond = (metric, more = '') => `rate(billbridge_${metric}{${chosen}${more}}[$__rate_interval])`;

/** @param {number} q @param {string} metric @param {string} selector @param {string} by */
const quantile = (q, metric, selector, by = '') =>
	`histogram_quantile(${q}, sum by (${by ? by + ', ' : ''}le) (rate(billbridge_${metric}_bucket{${selector}}[$__rate_interval])))`;

/** @param {[string, string][]} queries each with its legend */
const targets = (queries) => queries.map(([legend, expr], i) => new prometheus.DataqueryBuilder()
	.refId(String.fromCharCode(65 + i)).datasource(source).expr(expr).legendFormat(legend).range());

/** @param {(string | number)[]} colours a colour, and then each a value and the colour from it on */
const steps = (...colours) => {
	/** @type {grafana.Threshold[]} */
	const list = [{ value: null, color: String(colours[0]) }];
	for (let i = 1; i < colours.length; i += 2) {
		list.push({ value: Number(colours[i]), color: String(colours[i + 1]) });
	}
	return new grafana.ThresholdsConfigBuilder().mode(grafana.ThresholdsMode.Absolute).steps(list);
};

/** @param {string} zero @param {string} one @returns {grafana.ValueMapping[]} */
const words = (zero, one) => [{ type: grafana.MappingType.ValueToText, options: { 0: { text: zero }, 1: { text: one } } }];

/**
 * One number.
 * @param {string} title @param {string} description @param {string} expr @param {string} unit @param {ReturnType<typeof steps>} thresholds
 */
const number = (title, description, expr, unit, thresholds) => new stat.PanelBuilder()
	.title(title).description(description).datasource(source).targets(targets([['', expr]])).unit(unit).thresholds(thresholds)
	.colorMode(common.BigValueColorMode.Value).graphMode(common.BigValueGraphMode.Area).noValue('none')
	.reduceOptions(new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']))
	.height(4).span(columns / 6);

/**
 * Lines over time.
 * @param {string} title @param {string} description @param {string} unit @param {[string, string][]} queries
 */
const lines = (title, description, unit, ...queries) => new timeseries.PanelBuilder()
	.title(title).description(description).datasource(source).targets(targets(queries)).unit(unit).min(0)
	.fillOpacity(10).showPoints(common.VisibilityMode.Never)
	.legend(new common.VizLegendOptionsBuilder().showLegend(true).displayMode(common.LegendDisplayMode.Table)
		.placement(common.LegendPlacement.Bottom).calcs(['lastNotNull', 'max']))
	.tooltip(new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Multi).sort(common.SortOrder.Descending))
	.height(8).span(columns / 3);

const unknown = ',code="none",status=~"502|504"';
const alarm = (/** @type {number} */ from) => steps('green', from, 'red');

/** @type {[grafana.RowBuilder, (stat.PanelBuilder | timeseries.PanelBuilder)[]][]} */
const rows = [
	[new grafana.RowBuilder('Overview'), [
		number('Gateways', 'Gateways that answer Prometheus.', `count(billbridge_build_info{${chosen}})`, units.Short, steps('red', 1, 'green')),
		number('Requests', 'Requests of partners, answered or refused.', `sum(${perSecond('requests_total')})`, units.RequestsPerSecond, steps('blue')),
		number('Unknown outcomes', 'Writes without an answer of their upstream, in the time shown. billbridge bills list --outcome unknown lists those of a rollout.',
			`sum(increase(billbridge_requests_total{${chosen}${unknown}}[$__range]))`, units.Short, alarm(0.5)),
		number('Calls without a valid reply', 'Fraction of the requests: no connection, no reply in time, an incomplete reply, or a reply in another format.',
			`sum(${perSecond('upstream_errors_total')}) / sum(${perSecond('requests_total')})`, units.PercentUnit, steps('green', 0.01, 'orange', 0.05, 'red')),
		number('Open breakers', 'Breakers of upstreams that are open or half-open, in all gateways.', `sum(billbridge_upstream_breaker_state{${chosen}} > bool 0)`, units.Short, alarm(1)),
		number('Store', 'Whether every gateway can write to its store. "none": there is no store.', `min(billbridge_store_up{${chosen}})`, units.Short, steps('red', 1, 'green'))
			.mappings(words('down', 'up')),
		lines('Requests by operation', 'Requests of partners.', units.RequestsPerSecond, ['{{operation}}', `sum by (operation) (${perSecond('requests_total')})`]),
		lines('Answers by code', '0000 is a success. none: the answer has no code, for example after a write without an answer.', units.RequestsPerSecond,
			['{{code}}, HTTP {{status}}', `sum by (code, status) (${perSecond('requests_total')})`]),
		lines('Time of a request', 'From the header of the request to the end of its answer.', units.Seconds,
			['median', quantile(0.5, 'request_duration_seconds', chosen)], ['p99', quantile(0.99, 'request_duration_seconds', chosen)]),
		lines('Refused because of a limit', 'Requests that were not sent, because a limit of the config was reached.', units.RequestsPerSecond,
			['{{limit}}', `sum by (limit) (${perSecond('requests_limited_total')})`]).span(12),
		lines('Replies that do not fit the table', 'Fields of replies without their documented type, and fields that the other form does not have.', units.OpsPerSecond,
			['not the documented type', `sum(${perSecond('reply_mismatches_total')})`], ['dropped', `sum(${perSecond('fields_dropped_total')})`]).span(12),
	]],
	[new grafana.RowBuilder('Upstream $upstream').repeat('upstream'), [
		lines('Requests', 'Requests whose call went to this upstream, by HTTP status of the answer.', units.RequestsPerSecond,
			['HTTP {{status}}', `sum by (status) (${perSecond('requests_total', ',upstream="$upstream"')})`]),
		lines('Time of a call', 'From the connection to the last byte of the reply.', units.Seconds,
			['median', quantile(0.5, 'upstream_duration_seconds', ofUpstream)], ['p99', quantile(0.99, 'upstream_duration_seconds', ofUpstream)]),
		lines('Calls without a valid reply', 'busy: no free connection in time. open: the breaker is open. Both were not sent.', units.RequestsPerSecond,
			['{{reason}}', `sum by (reason) (${perSecond('upstream_errors_total', ',upstream="$upstream"')})`]),
		lines('Calls in progress', 'If calls wait for long, raise upstreams.NAME.connections.', units.Short,
			['in progress', `sum(billbridge_requests_in_flight{${ofUpstream}})`], ['wait for a connection', `sum(billbridge_upstream_waiting{${ofUpstream}})`]).span(12),
		lines('Breaker', '0 closed, 1 half-open, 2 open.', units.Short, ['{{instance}}', `max by (instance) (billbridge_upstream_breaker_state{${ofUpstream}})`]).max(2).decimals(0).span(12),
	]],
	[new grafana.RowBuilder('Rollout'), [
		number('Bills at both backends', 'How often a call found a bill at both backends, in the time shown. An operator must set the owner of each.', `sum(increase(billbridge_rollout_doubled_total{${chosen}}[$__range]))`, units.Short, alarm(0.5)).span(6),
		number('Verdicts FAIL', 'Number of verdicts FAIL in the report of the rollout.', `max(billbridge_rollout_verdicts{${chosen},verdict="FAIL"})`, units.Short, alarm(1)).span(6),
		number('Begun', 'no: the store is new, and billbridge rollout begin was not run.', `min(billbridge_rollout_begun{${chosen}})`, units.Short, steps('orange', 1, 'green'))
			.mappings(words('no', 'yes')).span(6),
		number('Clock', 'How far the clock of the machine is ahead of the clock of the store. From one day on no rows are removed.', `max(abs(billbridge_store_clock_offset_seconds{${chosen}}))`, units.Seconds, alarm(86400)).span(6),
		lines('Partners by stage', 'Partners that were seen or have a stage of their own.', units.Short, ['{{stage}}', `max by (stage) (billbridge_rollout_partners{${chosen}})`]),
		lines('Calls by backend', 'Calls by backend, and by the reason why the rollout chose it.', units.RequestsPerSecond, ['{{upstream}}: {{reason}}', `sum by (upstream, reason) (${perSecond('rollout_routed_total')})`]),
		lines('Refused calls', 'Calls that were not sent, because the owning backend of the bill was not known.', units.RequestsPerSecond, ['{{reason}}', `sum by (reason) (${perSecond('rollout_refused_total')})`]),
		lines('Verdicts', 'Verdicts on partners and operations, as in the report of the rollout.', units.Short, ['{{verdict}}', `max by (verdict) (billbridge_rollout_verdicts{${chosen}})`]),
		lines('Comparisons', 'Reads that were sent to both backends, and what was skipped because of a limit; reads of one bill that the gateway made by itself.', units.OpsPerSecond,
			['compared: {{class}}', `sum by (class) (${perSecond('rollout_comparisons_total')})`], ['read: {{shown}}', `sum by (shown) (${perSecond('bill_reads_total')})`]),
		lines('Time of the ledger, p99', 'Time of a read or write of the ledger. own: a create records its owning backend before it is sent.', units.Seconds, ['{{operation}}', quantile(0.99, 'rollout_ledger_seconds', chosen, 'operation')]),
	]],
	// max, not sum: gateways with one store report the same callbacks.
	[new grafana.RowBuilder('Callbacks'), [
		lines('Waiting and failed', 'failed: all attempts failed. billbridge callbacks list --state failed lists them.', units.Short,
			['{{upstream}}: waiting', `max by (upstream) (billbridge_callbacks_waiting{${chosen}})`], ['{{upstream}}: failed', `max by (upstream) (billbridge_callbacks_dead{${chosen}})`]),
		lines('Age of the oldest waiting callback', 'Age of the oldest callback that is not delivered yet. reconcile: for how long the first read of callbacks.reconcile has been due.', units.Seconds,
			['{{upstream}}', `max by (upstream) (billbridge_callbacks_oldest_waiting_seconds{${chosen}})`], ['reconcile', `max(billbridge_callbacks_reconcile_behind_seconds{${chosen}})`]),
		lines('Callbacks', 'accepted: stored, and acknowledged to the upstream. repeated: an upstream sent one again.', units.OpsPerSecond,
			['accepted', `sum(${perSecond('callbacks_accepted_total')})`], ['delivered', `sum(${perSecond('callbacks_delivered_total')})`],
			['repeated', `sum(${perSecond('callbacks_repeated_total')})`], ['superseded', `sum(${perSecond('callbacks_superseded_total')})`]),
		lines('Attempts to deliver', 'By outcome. forbidden: a partner does not allow the address of this gateway.', units.OpsPerSecond, ['{{outcome}}', `sum by (outcome) (${perSecond('callbacks_attempts_total')})`]),
		lines('Refused callbacks', 'Callbacks of upstreams that were refused. address: a callback address of a partner that was refused.', units.OpsPerSecond, ['{{reason}}', `sum by (reason) (${perSecond('callbacks_refused_total')})`]),
		lines('Unusual callbacks', 'Callbacks that were accepted, but are not as documented.', units.OpsPerSecond,
			['not in the table', `sum(${perSecond('callbacks_passed_total', ',as="unrecognised"')})`],
			['fields of another type', `sum(${perSecond('callbacks_fields_total', ',what="mismatched"')})`]),
	]],
	[new grafana.RowBuilder('Runtime'), [
		lines('CPU', 'Cores in use.', units.Short, ['{{instance}}', `rate(process_cpu_seconds_total{${chosen}}[$__rate_interval]) and on (job, instance) billbridge_build_info`]),
		lines('Memory', 'Resident memory, and bodies of requests, which limits.memory bounds.', units.BytesIEC,
			['{{instance}}', `process_resident_memory_bytes{${chosen}} and on (job, instance) billbridge_build_info`], ['{{instance}}: bodies', `billbridge_body_bytes{${chosen}}`]),
		lines('Goroutines', 'Their number grows with the connections of partners.', units.Short, ['{{instance}}', `go_goroutines{${chosen}} and on (job, instance) billbridge_build_info`]),
		lines('Connections', 'Open connections of partners and upstreams, and new ones that were closed because of a limit.', units.Short,
			['{{instance}}', `billbridge_connections{${chosen}}`], ['refused per second: {{limit}}', `sum by (limit) (${perSecond('connections_refused_total')})`]),
		lines('Open files', 'Open files, as a fraction of the limit of the process.', units.PercentUnit,
			['{{instance}}', `process_open_fds{${chosen}} / process_max_fds and on (job, instance) billbridge_build_info`]).thresholds(steps('green', 0.8, 'red')),
		lines('Pauses of the garbage collector', 'The longest of the last pauses.', units.Seconds, ['{{instance}}', `go_gc_duration_seconds{${chosen},quantile=~"1|1.0"} and on (job, instance) billbridge_build_info`]),
		lines('Refused requests', 'token: requests to the admin listener. framing: requests of partners.', units.RequestsPerSecond,
			['token: {{reason}}', `sum by (reason) (${perSecond('admin_token_refused_total')})`], ['framing: {{reason}}', `sum by (reason) (${perSecond('framing_refused_total')})`]),
		lines('Lost lines of the log', 'Lines of the log that could not be written.', units.OpsPerSecond, ['{{instance}}', perSecond('log_lines_lost_total')]),
		lines('Refused config', '1: the last reload was refused, and the gateway continues with the previous config.', units.Short, ['{{instance}}', `1 - billbridge_config_last_reload_successful{${chosen}}`]).max(1).decimals(0),
	]],
];

/** @param {string} name @param {string} label @param {string} values @param {string} all */
const choice = (name, label, values, all = '') => {
	const variable = new grafana.QueryVariableBuilder(name).label(label).datasource(source)
		.query({ query: values, refId: name }).definition(values)
		.refresh(grafana.VariableRefresh.OnTimeRangeChanged).sort(grafana.VariableSort.AlphabeticalAsc)
		.multi(true).includeAll(true).current({ selected: true, text: ['All'], value: ['$__all'] });
	return all ? variable.allValue(all) : variable;
};

const dashboard = new grafana.DashboardBuilder('billbridge')
	.uid('billbridge').description('Printed by: billbridge assets dashboard').tags(['billbridge'])
	.time({ from: 'now-3h', to: 'now' }).refresh('30s').timezone('browser').tooltip(grafana.DashboardCursorSync.Crosshair).editable()
	.withVariable(new grafana.DatasourceVariableBuilder('datasource').label('Prometheus').type('prometheus'))
	.withVariable(choice('job', 'Job', 'label_values(billbridge_build_info, job)', '.+'))
	.withVariable(choice('instance', 'Gateway', 'label_values(billbridge_build_info{job=~"$job"}, instance)', '.+'))
	// A row repeats over the values, so All must stand for each of them.
	.withVariable(choice('upstream', 'Upstream', 'label_values(billbridge_upstream_breaker_state{job=~"$job",instance=~"$instance"}, upstream)'));
let id = 0;
for (const [row, panels] of rows) {
	dashboard.withRow(row.id(++id));
	for (const panel of panels) {
		dashboard.withPanel(panel.id(++id));
	}
}
console.log(JSON.stringify(dashboard.build(), null, 2));

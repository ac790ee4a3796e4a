package main

import (
	"context"
	"net/url"

	"billbridge/proxy/moves"
	"billbridge/proxy/operate"

	"github.com/alecthomas/kong"
)

type waveCommand struct {
	Create   waveCreate   `cmd:"" help:"Start a wave: it moves its partners, one step at a time, and only when nothing blocks the step."`
	Show     waveShow     `cmd:"" help:"List the waves, the last one first; or show one, and what each of its partners waits for."`
	Pause    waveChange   `cmd:"" help:"Make no steps forward until the wave is resumed. Partners with a verdict FAIL are still taken back."`
	Resume   waveResume   `cmd:"" help:"Resume a wave that is paused; or with --partner, let the wave move a partner again that was taken back, or that a person has moved."`
	Stop     waveChange   `cmd:"" help:"End a wave. Its partners stay where they are."`
	Rollback waveRollback `cmd:"" help:"Take the partners of a wave back to the stages that they had before it, and end it."`
}

// wavePath is where the admin listener has the waves.
const wavePath = "/rollout/waves"

// waveNamed names a wave.
type waveNamed struct {
	Name string `arg:"" help:"The name of the wave."`
}

func (n waveNamed) path() string { return wavePath + "/" + url.PathEscape(n.Name) }

type waveCreate struct {
	decisionFlags
	waveNamed
	From given `required:"" placeholder:"FILE" help:"The partners in this file, or - for stdin, in their order: one per line, a name in the config or at least the first 12 hex digits of the SHA-256 of a key. Empty lines and lines that begin with # are left out."`
	planFlags
	DryRun bool `help:"Print the path of each partner and what it would wait for now, and start nothing."`
}

// planFlags are the fields of moves.Plan.
type planFlags struct {
	Steps moves.Steps    `placeholder:"STEPS" help:"The stages through which each partner goes. If omitted: shadow,canary:10,canary:50,new, without shadow if the backends have separate bills."`
	Stay  moves.Duration `placeholder:"DURATION" help:"How long a partner stays in a stage, at least. If omitted: 24h."`
	Each  moves.Pace     `placeholder:"PACE" help:"The largest number of steps forward per minute (m), hour (h) or day (d), at equal intervals. If omitted: 20/h."`
}

// Run starts the wave, or shows what it would do.
func (c *waveCreate) Run(ctx context.Context) error {
	order := operate.WaveOrder{
		Preview: c.DryRun, WaveName: operate.WaveName{Name: c.Name}, Plan: moves.Plan(c.planFlags),
	}
	lines, err := linesIn(c.From, c.in)
	if err != nil {
		return err
	}
	for _, line := range lines {
		order.Partners += reference(given(line.text)) + "\n"
	}
	return c.showPosted(ctx, wavePath, "wave", &operate.WaveInfo{}, order)
}

type waveShow struct {
	adminFlags
	Name  given `arg:"" optional:"" help:"The name of the wave. If omitted, all waves are listed."`
	Limit int   `default:"100" placeholder:"N" help:"The maximum number of partners, from 1 to 10000 (${default}): first those that wait for a person."`
	JSON  bool  `name:"json" help:"Print JSON instead of a table."`
}

// Run lists the waves, or shows one.
func (c *waveShow) Run(ctx context.Context) error {
	if c.Name == "" {
		return c.show(ctx, wavePath, "waves", c.JSON, &[]operate.WaveInfo{})
	}
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	query := operate.WaveQuery{Limit: operate.AtMost(c.Limit)}
	return c.show(ctx, waveNamed{string(c.Name)}.path(), "wave", c.JSON, &operate.WaveInfo{}, query)
}

type waveChange struct {
	decisionFlags
	waveNamed
}

// Run changes what a wave does: the action is the name of the command.
func (c *waveChange) Run(ctx context.Context, k *kong.Context) error {
	return c.changeWave(ctx, k.Selected().Name)
}

func (c *waveChange) changeWave(ctx context.Context, action string) error {
	changed := make([]operate.WaveInfo, 1)
	if err := c.post(ctx, c.path()+"/"+action, &changed[0]); err != nil {
		return err
	}
	return show(c.out, "waves", changed)
}

type waveResume struct {
	waveChange
	partnerFlags
}

// Run resumes a wave, or lets it move a partner on.
func (c *waveResume) Run(ctx context.Context, one operate.PartnerRef) error {
	if one.Partner == "" {
		return c.changeWave(ctx, "resume")
	}
	return c.showPosted(ctx, c.path()+"/release", "release", &operate.Change{}, one)
}

type waveRollback struct {
	waveChange
	DryRun bool `help:"Print the steps back and what blocks them, and change nothing."`
}

// Run takes the partners of a wave back, or shows that.
func (c *waveRollback) Run(ctx context.Context) error {
	if !c.DryRun {
		return c.changeWave(ctx, "rollback")
	}
	return c.showPosted(ctx, c.path()+"/rollback", "wave", &operate.WaveInfo{}, operate.WaveChange{Preview: true})
}

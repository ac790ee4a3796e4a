package main

import (
	"context"
	"net/url"

	"billbridge/proxy/moves"
	"billbridge/proxy/operate"

	"github.com/alecthomas/kong"
)

type waveCommand struct {
	Create   waveCreate   `cmd:""`
	Show     waveShow     `cmd:""`
	Pause    waveChange   `cmd:""`
	Resume   waveResume   `cmd:""`
	Stop     waveChange   `cmd:""`
	Rollback waveRollback `cmd:""`
}

// wavePath is where the admin listener has the waves.
const wavePath = "/rollout/waves"

// waveNamed names a wave.
type waveNamed struct {
	Name string `arg:""`
}

func (n waveNamed) path() string { return wavePath + "/" + url.PathEscape(n.Name) }

type waveCreate struct {
	decisionFlags
	waveNamed
	From given `required:"" placeholder:"FILE"`
	planFlags
	DryRun bool
}

// planFlags are the fields of moves.Plan.
type planFlags struct {
	Steps moves.Steps    `placeholder:"STEPS"`
	Stay  moves.Duration `placeholder:"DURATION"`
	Each  moves.Pace     `placeholder:"PACE"`
}

// Run starts the wave, or shows what it would do.
func (c *waveCreate) Run(ctx context.Context) error {
	order := operate.WaveOrder{
		WaveName: operate.WaveName{Name: c.Name}, Plan: moves.Plan(c.planFlags),
	}
	lines, err := linesIn(c.From, c.in)
	if err != nil {
		return err
	}
	for _, line := range lines {
		order.Partners += reference(given(line.text)) + "\n"
	}
	return c.do(ctx, verb{wavePath, "wave", c.DryRun}, &operate.WaveInfo{}, order)
}

type waveShow struct {
	adminFlags
	Name  given `arg:"" optional:""`
	Limit int   `default:"100" placeholder:"N"`
	JSON  bool  `name:"json"`
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
	return c.do(ctx, verb{path: c.path() + "/" + k.Selected().Name, said: "wave changed"}, &operate.WaveInfo{})
}

type waveResume struct {
	waveChange
	partnerFlags
}

// Run resumes a wave, or lets it move a partner on.
func (c *waveResume) Run(ctx context.Context, k *kong.Context, one operate.PartnerRef) error {
	if one.Partner == "" {
		return c.waveChange.Run(ctx, k)
	}
	return c.do(ctx, verb{path: c.path() + "/release", said: "release"}, &operate.Change{}, one)
}

type waveRollback struct {
	waveChange
	DryRun bool
}

// Run takes the partners of a wave back, or shows that.
func (c *waveRollback) Run(ctx context.Context, k *kong.Context) error {
	if !c.DryRun {
		return c.waveChange.Run(ctx, k)
	}
	return c.do(ctx, verb{c.path() + "/rollback", "wave", true}, &operate.WaveInfo{})
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/routing"
)

// moveFlags are the flags of the commands that change the stages of partners.
type moveFlags struct {
	decisionFlags
	partnerFlags
	PartnerFile given         `placeholder:"FILE"`
	Force       operate.Force `placeholder:"REASONS"`
	DryRun      bool
}

// move changes the stage of each partner that is named, or the default, by an action of the admin listener.
func (f *moveFlags) move(
	ctx context.Context, action string, one operate.PartnerRef, isDefault bool, in ...any,
) error {
	given := 0
	for _, is := range []bool{one.Partner != "", isDefault, f.PartnerFile != ""} {
		if is {
			given++
		}
	}
	switch {
	case given != 1 && action == "next":
		return usageError("give one of --partner, --key-file and --partner-file")
	case given != 1:
		return usageError("give one of --partner, --key-file, --partner-file and --default")
	case f.PartnerFile != "":
		return f.moveAll(ctx, action, in...)
	case isDefault:
		one.Partner = operate.Default
	}
	if action == operate.Next {
		known, err := f.known(ctx, one)
		if err != nil {
			return err
		}
		in = append(in, nextStep(known))
	}
	return f.moveOne(ctx, action, append(in, one)...)
}

// known returns the state of a partner, and of the rollout.
func (f *moveFlags) known(ctx context.Context, ref operate.PartnerRef) (s operate.Status, err error) {
	err = f.get(ctx, "/rollout", &s, ref)
	return s, err
}

// nextStep returns the next step of the partner of a status. With it the gateway makes that step only: if somebody else
// has made it meanwhile, it refuses the one after that. After the last stage it is zero, and the gateway says so.
func nextStep(s operate.Status) operate.Move {
	p, percent := s.Partners[0], 0
	if p.Percent != nil {
		percent = *p.Percent
	}
	to, more := routing.At(string(p.Stage), percent).Next(config.Bills(s.Bills))
	switch {
	case !more:
		return operate.Move{}
	case to.Stage == routing.StageCanary:
		return operate.Move{Stage: to.Stage, Percent: &to.Percent}
	}
	return operate.Move{Stage: to.Stage}
}

// moveOne moves a partner.
func (f *moveFlags) moveOne(ctx context.Context, action string, in ...any) error {
	v := verb{"/rollout/" + action, "stage", f.DryRun}
	if f.DryRun {
		v.said = "preview"
	} else {
		in = append(in, operate.Decision{Force: f.Force})
	}
	return f.do(ctx, v, &operate.Change{}, in...)
}

// moveAll moves the partners of the file. It goes on after a refusal, and ends after any other error.
func (f *moveFlags) moveAll(ctx context.Context, action string, in ...any) error {
	partners, err := f.listed(ctx)
	if err != nil {
		return err
	}
	left := len(partners)
	for _, p := range partners {
		step := append(in, p.PartnerRef)
		if action == operate.Next {
			step = append(step, p.next)
		}
		err := f.moveOne(ctx, action, step...)
		if err == nil {
			left--
			continue
		}
		printf(f.err, "%s: %v\n", p.label, linesOf(err))
		if !isRefusal(err) {
			break
		}
	}
	if left == 0 {
		return nil
	}
	what := "were not changed"
	if f.DryRun {
		what = "cannot be changed"
	}
	printf(f.err, "%d of %d partners %s.\n", left, len(partners), what)
	return errReported
}

// A listedPartner is a partner in a file.
type listedPartner struct {
	operate.PartnerRef
	label string       // its place in the file, and how the gateway calls it
	next  operate.Move // by the stage that it had when the file was read
}

// listed returns the partners of the file, if the gateway knows all of them and none is there twice: a second "next"
// would skip a stage. No error has the text of a line, which could be a key.
func (f *moveFlags) listed(ctx context.Context) (all []listedPartner, err error) {
	lines, err := linesIn(f.PartnerFile, f.in)
	if err == nil && len(lines) == 0 {
		err = fmt.Errorf("%s has no partner", cmp.Or(strings.TrimPrefix(string(f.PartnerFile), "-"), "stdin"))
	}
	if err != nil {
		return nil, err
	}
	var wrong []error
	places := map[string]string{}
	for _, line := range lines {
		ref := operate.PartnerRef{Partner: reference(given(line.text))}
		known, err := f.known(ctx, ref)
		switch {
		case isRefusal(err):
			wrong = append(wrong, fmt.Errorf("%s: %w", line.place, err))
			continue
		case err != nil:
			return nil, err
		}
		p := known.Partners[0]
		if first := places[p.Partner]; first != "" {
			wrong = append(wrong, fmt.Errorf("%s: this partner is in line %s already", line.place, first))
		}
		places[p.Partner] = line.place
		all = append(all, listedPartner{ref, line.place + ": " + p.Label(), nextStep(known)})
	}
	return all, errors.Join(wrong...)
}

type rolloutNext struct{ moveFlags }

// Run moves the partners.
func (c *rolloutNext) Run(ctx context.Context, partner operate.PartnerRef) error {
	return c.move(ctx, "next", partner, false)
}

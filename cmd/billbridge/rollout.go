package main

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"billbridge/config"
	"billbridge/proxy/operate"
	"billbridge/proxy/partner"
	"billbridge/proxy/routing"

	"github.com/alecthomas/kong"
)

type rolloutCommand struct {
	Status   rolloutStatus  `cmd:""`
	Report   rolloutReport  `cmd:""`
	Compare  rolloutCompare `cmd:""`
	Next     rolloutNext    `cmd:""`
	Set      rolloutSet     `cmd:""`
	Stop     rolloutStop    `cmd:""`
	Resume   rolloutChange  `cmd:""`
	Begin    rolloutBegin   `cmd:""`
	Moved    rolloutMoved   `cmd:""`
	Restored rolloutChange  `cmd:""`
	Reset    rolloutReset   `cmd:""`
	Key      rolloutKey     `cmd:""`
}

// partnerFlags name a partner.
type partnerFlags struct {
	Partner given `placeholder:"REF"`
	KeyFile given `placeholder:"FILE"`
}

// reference returns what the admin listener gets for a --partner: a hash as it is, and for every other text that of a
// name. The text itself is neither sent nor printed: it could be a key.
func reference(p given) string {
	if _, isHash := partner.Parse(string(p)); isHash || p == "" {
		return string(p)
	}
	return operate.Named(string(p))
}

// ProvidePartner returns the partner for package operate, all if none is named. With it kong fills the parameter of a
// method Run.
func (f *partnerFlags) ProvidePartner() (ref operate.PartnerRef, err error) {
	switch ref.Partner = reference(f.Partner); {
	case f.Partner != "" && f.KeyFile != "":
		err = usageError("--partner and --key-file cannot be combined")
	case f.KeyFile != "":
		var key string
		key, err = readKey(string(f.KeyFile))
		ref.Partner = string(partner.Of(key))
	}
	return ref, err
}

// maxKeyFile bounds the size of a key file, in bytes.
const maxKeyFile = 64 << 10

// readKey returns the key in a file, without the byte order mark and the line end that editors add. A key has no blanks
// and quotes: with one, the hash would be that of a partner that does not exist.
func readKey(file string) (string, error) {
	text, err := readText(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case len(text) > maxKeyFile:
		return "", fmt.Errorf("%s is larger than 64 KiB: the file must have the key alone", file)
	case key == "":
		return "", fmt.Errorf("%s is empty: the file must have the key alone", file)
	case strings.Contains(key, "\n"):
		return "", fmt.Errorf("%s has more than one line: the file must have the key alone", file)
	case strings.ContainsFunc(key, unicode.IsSpace), strings.Trim(key, "\"'") != key:
		return "", fmt.Errorf("%s has a blank or quotes: the file must have the key alone", file)
	}
	if _, err := config.SecretText(key); err != nil {
		return "", fmt.Errorf("%s %w", file, err)
	}
	return key, nil
}

type rolloutSet struct {
	moveFlags
	Default bool
	Stage   string `required:"" enum:"old,shadow,canary,new,drained,default" placeholder:"STAGE"`
	Percent *int   `placeholder:"N"`
}

// Run sets a stage.
func (c *rolloutSet) Run(ctx context.Context, partner operate.PartnerRef) error {
	switch {
	case (c.Percent != nil) != (c.Stage == string(routing.StageCanary)):
		return usageError("--percent is required with --stage canary, and not allowed with other stages")
	case c.Percent != nil && (*c.Percent < 0 || *c.Percent > 100):
		return usageError(fmt.Sprintf("--percent must be 0 to 100, but is %d", *c.Percent))
	}
	return c.move(ctx, "stage", partner, c.Default, operate.Move{Stage: routing.Stage(c.Stage), Percent: c.Percent})
}

type rolloutStop struct {
	decisionFlags
	Force operate.Force `placeholder:"REASONS"`
}

// Run turns the kill switch on.
func (c *rolloutStop) Run(ctx context.Context) error {
	return c.rollout(ctx, "stop", operate.Decision{Force: c.Force})
}

type rolloutBegin struct {
	decisionFlags
	Force operate.Force `placeholder:"REASONS"`
}

// Run begins the rollout.
func (c *rolloutBegin) Run(ctx context.Context) error {
	return c.rollout(ctx, "begin", operate.Decision{Force: c.Force})
}

type rolloutMoved struct {
	decisionFlags
	Upstream string `arg:"" placeholder:"NAME"`
}

// Run allows the change.
func (c *rolloutMoved) Run(ctx context.Context) error {
	return c.rollout(ctx, "moved", operate.MovedUpstream{Upstream: c.Upstream})
}

type rolloutReset struct {
	decisionFlags
	partnerFlags
	All   bool
	Force operate.Force `placeholder:"REASONS"`
}

// Run resets counts.
func (c *rolloutReset) Run(ctx context.Context, partner operate.PartnerRef) error {
	switch {
	case (partner.Partner != "") == c.All:
		return usageError("give one of --partner, --key-file and --all")
	case c.All:
		partner.Partner = operate.All
	}
	return c.rollout(ctx, "reset", partner, operate.Decision{Force: c.Force})
}

// rolloutChange is a command whose name is that of the change.
type rolloutChange struct{ decisionFlags }

// Run makes the change.
func (c *rolloutChange) Run(ctx context.Context, k *kong.Context) error {
	return c.rollout(ctx, k.Selected().Name)
}

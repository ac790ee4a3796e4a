package proxytest

import (
	"os/exec"
	"syscall"
)

// Tie ends a process with that of the test that starts it, also if a run takes too long and ends by a panic, after which
// nothing of the test runs.
func Tie(cmd *exec.Cmd) *exec.Cmd {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return cmd
}

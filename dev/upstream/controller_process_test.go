package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// executeController runs the controller in UPSTREAM_CONTROLLER, one argument per line, as a separate process.
// When the context ends, it gets SIGTERM. Its output goes to a file beside the suite's own log.
func executeController(t *testing.T, ctx context.Context, _ func(args ...any), args ...string) (string, string, error) {
	command := strings.Split(os.Getenv("UPSTREAM_CONTROLLER"), "\n")
	name := strings.ReplaceAll(t.Name(), "/", "-")
	log, err := os.Create(filepath.Join(os.Getenv("UPSTREAM_LOGS"), fmt.Sprintf("controller-%s.log", name)))
	if err != nil {
		return "", "", err
	}
	defer log.Close()

	cmd := exec.CommandContext(ctx, command[0], append(command[1:], args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Run()
	if err != nil && ctx.Err() != nil && cmd.ProcessState.ExitCode() == 0 {
		err = nil // stopped on request with exit code 0
	}
	return "", "", err
}

// The program renders Flux's Kustomizations as kustomize-controller would build them, and charts as helm-controller would
// render them, from files alone: one JSON request on stdin, one JSON answer on stdout. It needs no network, no cluster and no place to write to.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Exit statuses besides 0.
const (
	failed     = 1
	badRequest = 2
)

func main() {
	if len(os.Args) > 1 {
		os.Exit(explain(os.Args[1:]))
	}
	limitResources()
	stayLocal()
	err := run(os.Stdin, os.Stdout)
	var bad *requestError
	switch {
	case err == nil:
	case errors.As(err, &bad):
		fmt.Fprintln(os.Stderr, bad)
		os.Exit(badRequest)
	default:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(failed)
	}
}

func run(input io.Reader, output io.Writer) error {
	request, err := readRequest(input)
	if err != nil {
		return err
	}
	answer := newAnswer(maxAnswerBytes)
	artifact, err := openArtifact(request.Root, request.Ignore)
	for _, item := range request.Kustomizations {
		if err != nil {
			answer.addError(fmt.Errorf("failed to read the source: %w", err))
			continue
		}
		objects, files, err := render(artifact, item)
		if err != nil {
			answer.addError(err)
			continue
		}
		if err := answer.add(objects, files); err != nil {
			return err
		}
	}
	for _, item := range request.Releases {
		if err != nil {
			answer.addError(fmt.Errorf("failed to read the source: %w", err))
			continue
		}
		if err := answer.addRelease(renderRelease(artifact, item)); err != nil {
			return err
		}
	}
	writer := bufio.NewWriter(output)
	if err := json.NewEncoder(writer).Encode(answer.results); err != nil {
		return err
	}
	return writer.Flush()
}

// explain answers `--version` and `--help`, and refuses all other arguments.
func explain(args []string) int {
	switch args[0] {
	case "--version":
		fmt.Printf("towline-flux for kustomize-controller %s\n", controllerVersion())
		return 0
	case "--help":
		fmt.Print("Reads a request from stdin and writes the rendered Kustomizations to stdout, both as JSON.\n")
		return 0
	default:
		fmt.Fprintf(os.Stderr, "unknown argument %q: the request is read from stdin\n", args[0])
		return badRequest
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// request names a checkout and what to render from it.
type request struct {
	// Root is the absolute path of the checkout.
	Root string `json:"root"`
	// Ignore is `spec.ignore` of the GitRepository.
	Ignore         *string    `json:"ignore"`
	Kustomizations []toRender `json:"kustomizations"`
	// Releases are answered after the Kustomizations.
	Releases []releaseToRender `json:"releases"`
}

type toRender struct {
	Resource json.RawMessage `json:"resource"`
	// Variables are those of `postBuild.substituteFrom`; `postBuild.substitute` wins over them.
	Variables map[string]string `json:"variables"`
}

// requestError says what is wrong with the request as a whole, in one line.
type requestError struct{ reason string }

func (e *requestError) Error() string { return "bad request: " + e.reason }

// maxRequestBytes bounds what is read from stdin: 200 Kustomizations with inline patches are a tenth of it.
const maxRequestBytes = 32 << 20

func readRequest(input io.Reader) (*request, error) {
	content, err := io.ReadAll(io.LimitReader(input, maxRequestBytes+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxRequestBytes {
		return nil, &requestError{fmt.Sprintf("it is larger than %d MiB", maxRequestBytes>>20)}
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	var parsed request
	if err := decoder.Decode(&parsed); err != nil {
		return nil, &requestError{err.Error()}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, &requestError{"something follows the JSON object"}
	}
	if !filepath.IsAbs(parsed.Root) {
		return nil, &requestError{"root is not an absolute path"}
	}
	return &parsed, nil
}

// parseKustomization decodes the resource as the API server would: fields that Flux does not know are dropped.
func parseKustomization(resource json.RawMessage) (*kustomizev1.Kustomization, error) {
	var parsed kustomizev1.Kustomization
	if err := utiljson.Unmarshal(resource, &parsed); err != nil {
		return nil, fmt.Errorf("not a Kustomization: %w", err)
	}
	if kind := parsed.GroupVersionKind(); kind.Group != kustomizev1.GroupVersion.Group || kind.Kind != kustomizev1.KustomizationKind {
		return nil, fmt.Errorf("not a Kustomization of Flux: %s", kind)
	}
	if parsed.Name == "" || parsed.Namespace == "" {
		return nil, errors.New("the Kustomization has no name or no namespace")
	}
	return &parsed, nil
}

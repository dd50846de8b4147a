package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	generator "github.com/fluxcd/pkg/kustomize"
	kustypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

var errRemote = errors.New("remote files are not read for previews, only those of the repository")

// stayLocal makes kustomize fail where it would send a request. It has no option for that. git, which it starts for
// other references, is not found because there is no PATH.
func stayLocal() {
	http.DefaultTransport = noTransport{}
}

type noTransport struct{}

func (noTransport) RoundTrip(*http.Request) (*http.Response, error) { return nil, errRemote }

// refuseRemote names the first reference of a kustomization file that is not a file of the repository, and charts, which
// Flux does not inflate. What it overlooks fails too, but in kustomize's words.
func refuseRemote(name string, content []byte) error {
	var parsed kustypes.Kustomization
	if err := yaml.Unmarshal(content, &parsed); err != nil {
		return nil // kustomize says what is wrong with it
	}
	if len(parsed.HelmCharts) > 0 || len(parsed.HelmChartInflationGenerator) > 0 {
		return fmt.Errorf("%s: helmCharts: Flux does not inflate Helm charts in kustomization files", name)
	}
	for _, reference := range referencesOf(&parsed) {
		if isRemote(reference) {
			return fmt.Errorf("%s: %q: %w", name, reference, errRemote)
		}
	}
	return nil
}

// referencesOf lists the fields that kustomize takes for paths or URLs.
func referencesOf(k *kustypes.Kustomization) []string {
	var references []string
	for _, paths := range [][]string{
		k.Resources, k.Components, k.Bases, k.Crds, k.Configurations, k.Generators, k.Transformers, k.Validators,
	} {
		references = append(references, paths...)
	}
	for _, patch := range k.PatchesStrategicMerge {
		references = append(references, string(patch))
	}
	for _, patch := range append(k.Patches, k.PatchesJson6902...) {
		references = append(references, patch.Path)
	}
	for _, replacement := range k.Replacements {
		references = append(references, replacement.Path)
	}
	for _, generated := range k.ConfigMapGenerator {
		references = append(references, sourcesOf(generated.KvPairSources)...)
	}
	for _, generated := range k.SecretGenerator {
		references = append(references, sourcesOf(generated.KvPairSources)...)
	}
	return append(references, k.OpenAPI["path"])
}

func sourcesOf(sources kustypes.KvPairSources) []string {
	references := append([]string{sources.EnvSource}, sources.EnvSources...)
	for _, file := range sources.FileSources {
		_, path, keyed := strings.Cut(file, "=")
		if keyed {
			references = append(references, path)
		}
		references = append(references, file)
	}
	return references
}

func isRemote(reference string) bool {
	if strings.HasPrefix(strings.ToLower(reference), "file://") {
		return true // a repository on this machine
	}
	return !filepath.IsAbs(reference) && !generator.IsLocalRelativePath(reference)
}

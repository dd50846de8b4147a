package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	"helm.sh/helm/v4/pkg/chart/common"
	commonutil "helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	chartutilv2 "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// releaseToRender is a HelmRelease whose chart is part of the source.
type releaseToRender struct {
	Resource json.RawMessage `json:"resource"`
	// Objects are what `valuesFrom` names, as far as it exists.
	Objects []valuesObject `json:"objects"`
	// IsUpgrade is false for one that Helm has yet to install.
	IsUpgrade bool `json:"isUpgrade"`
	// VersionMetadata is what source-controller adds to the version of the chart.
	VersionMetadata string `json:"versionMetadata"`
	// KubeVersion and APIVersions are those of the cluster; without them, Helm's defaults.
	KubeVersion string   `json:"kubeVersion"`
	APIVersions []string `json:"apiVersions"`
	// OnlyFiles asks for the files of the chart, and renders nothing.
	OnlyFiles bool `json:"onlyFiles"`
}

type renderedRelease struct {
	// Objects are those of the release, without hooks.
	Objects []*unstructured.Unstructured `json:"objects"`
	Hooks   []renderedHook               `json:"hooks"`
	// CRDs are those in the directories `crds` of the charts, if the policy of the HelmRelease applies them.
	CRDs  []*unstructured.Unstructured `json:"crds"`
	Files []string                     `json:"files"`
	Chart *chartIdentity               `json:"chart"`
}

type renderedHook struct {
	Object *unstructured.Unstructured `json:"object"`
	Events []string                   `json:"events"`
}

type chartIdentity struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type releaseFailure struct {
	Error string `json:"error"`
	// IsUnsupported says that the chart is not to blame.
	IsUnsupported bool           `json:"isUnsupported"`
	Files         []string       `json:"files"`
	Chart         *chartIdentity `json:"chart,omitempty"`
}

// renderRelease returns what helm-controller would install, or why it would not.
func renderRelease(artifact *artifact, item releaseToRender) any {
	source := newView(artifact)
	result := &renderedRelease{Objects: []*unstructured.Unstructured{}, Hooks: []renderedHook{}, CRDs: []*unstructured.Unstructured{}}
	err := fillRelease(source, item, result)
	if source.refused != nil {
		err = source.refused
	}
	if err != nil {
		return releaseFailure{Error: toWords(err), IsUnsupported: isUnsupported(err), Files: source.filesRead(), Chart: result.Chart}
	}
	result.Files = source.filesRead()
	return result
}

func fillRelease(source *view, item releaseToRender, result *renderedRelease) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("recovered from panic while rendering the chart: %v", panicked)
		}
	}()
	release, err := parseRelease(item.Resource)
	if err != nil {
		return err
	}
	// Names the culprit if the process exceeds its limits.
	fmt.Fprintf(os.Stderr, "rendering %s/%s\n", release.Namespace, release.Name)
	loaded, err := loadChart(source, release.Spec.Chart, item.VersionMetadata)
	if err != nil {
		return err
	}
	result.Chart = &chartIdentity{Name: loaded.Name(), Version: loaded.Metadata.Version}
	if item.OnlyFiles {
		return nil
	}
	values, err := valuesOf(release, item.Objects)
	if err != nil {
		return err
	}
	files, err := runTemplates(release, loaded, values, item)
	if err != nil {
		return err
	}
	// Afterwards, the chart has no subcharts that the values disable.
	if err := addCRDs(release, loaded, item.IsUpgrade, result); err != nil {
		return err
	}
	for name, content := range files {
		if err := refuseBomb(name, []byte(content)); err != nil {
			return err
		}
	}
	files, err = postRenderFiles(release, files)
	if err != nil {
		return err
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	for _, manifest := range manifests {
		objects, err := readManifest(manifest.Content)
		if err != nil {
			return err
		}
		result.Objects = append(result.Objects, objects...)
	}
	return addHooks(release, hooks, result)
}

func parseRelease(resource json.RawMessage) (*helmv2.HelmRelease, error) {
	var parsed helmv2.HelmRelease
	if err := utiljson.Unmarshal(resource, &parsed); err != nil {
		return nil, fmt.Errorf("not a HelmRelease: %w", err)
	}
	kind := parsed.GroupVersionKind()
	if kind.Group != helmv2.GroupVersion.Group || kind.Kind != helmv2.HelmReleaseKind {
		return nil, fmt.Errorf("not a HelmRelease of Flux: %s", kind)
	}
	if parsed.Name == "" || parsed.Namespace == "" {
		return nil, errors.New("the HelmRelease has no name or no namespace")
	}
	if parsed.Spec.Chart == nil {
		return nil, &unsupportedError{"its chart is not named in spec.chart"}
	}
	return &parsed, nil
}

// runTemplates renders the templates as an install or upgrade does, without a cluster: `lookup` finds nothing, and no names
// are resolved.
func runTemplates(release *helmv2.HelmRelease, loaded *chart.Chart, values common.Values, item releaseToRender) (map[string]string, error) {
	if loaded.Metadata.Type != "" && loaded.Metadata.Type != "application" {
		return nil, fmt.Errorf("%s charts are not installable", loaded.Metadata.Type)
	}
	capabilities, err := capabilitiesOf(item)
	if err != nil {
		return nil, err
	}
	if wanted := loaded.Metadata.KubeVersion; wanted != "" && !chartutilv2.IsCompatibleRange(wanted, capabilities.KubeVersion.String()) {
		return nil, fmt.Errorf("chart requires kubeVersion: %s which is incompatible with Kubernetes %s", wanted, capabilities.KubeVersion.Version)
	}
	if err := refuseSchemaReferences(loaded); err != nil {
		return nil, err
	}
	if err := chartutilv2.ProcessDependencies(loaded, values); err != nil {
		return nil, fmt.Errorf("chart dependencies processing failed: %w", err)
	}
	skipsSchema := release.GetInstall().DisableSchemaValidation
	options := common.ReleaseOptions{Name: releaseName(release), Namespace: release.GetReleaseNamespace(), Revision: 1, IsInstall: true}
	if item.IsUpgrade {
		skipsSchema = release.GetUpgrade().DisableSchemaValidation
		options.Revision, options.IsInstall, options.IsUpgrade = 2, false, true
	}
	complete, err := commonutil.ToRenderValuesWithSchemaValidation(loaded, values, options, capabilities, skipsSchema)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, complete)
	if err != nil {
		return nil, err
	}
	for name := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			delete(files, name)
		}
	}
	return files, nil
}

// releaseName shortens it as helm-controller does.
func releaseName(release *helmv2.HelmRelease) string {
	name := release.GetReleaseName()
	if len(name) <= 53 {
		return name
	}
	return name[:40] + "-" + fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:12]
}

func addCRDs(release *helmv2.HelmRelease, loaded *chart.Chart, isUpgrade bool, result *renderedRelease) error {
	policy := release.GetInstall().CRDs
	if isUpgrade {
		policy = release.GetUpgrade().CRDs
	}
	switch policy {
	case "", helmv2.Create, helmv2.CreateReplace:
	case helmv2.Skip:
		return nil
	default:
		return fmt.Errorf("invalid CRD upgrade policy '%s', valid values are '%s', '%s' or '%s'", policy, helmv2.Skip, helmv2.Create, helmv2.CreateReplace)
	}
	for _, file := range loaded.CRDObjects() {
		objects, err := readManifest(string(file.File.Data))
		if err != nil {
			return fmt.Errorf("failed to parse CustomResourceDefinitions from %s: %w", file.Name, err)
		}
		for _, object := range objects {
			if ssautil.IsCRD(object) {
				ssautil.SetCommonMetadata([]*unstructured.Unstructured{object}, map[string]string{
					helmv2.GroupVersion.Group + "/name":      release.Name,
					helmv2.GroupVersion.Group + "/namespace": release.Namespace,
				}, nil)
				result.CRDs = append(result.CRDs, object)
			}
		}
	}
	return nil
}

// addHooks adds those that helm-controller may ever run of the release, with the events that make it do so.
func addHooks(release *helmv2.HelmRelease, hooks []*releasev1.Hook, result *renderedRelease) error {
	disabled := map[releasev1.HookEvent]bool{
		releasev1.HookPreInstall:   release.GetInstall().DisableHooks,
		releasev1.HookPostInstall:  release.GetInstall().DisableHooks,
		releasev1.HookPreUpgrade:   release.GetUpgrade().DisableHooks,
		releasev1.HookPostUpgrade:  release.GetUpgrade().DisableHooks,
		releasev1.HookPreRollback:  release.GetRollback().DisableHooks,
		releasev1.HookPostRollback: release.GetRollback().DisableHooks,
		releasev1.HookPreDelete:    release.GetUninstall().DisableHooks,
		releasev1.HookPostDelete:   release.GetUninstall().DisableHooks,
		releasev1.HookTest:         !release.GetTest().Enable,
	}
	for _, hook := range hooks {
		var runs []string
		for _, event := range hook.Events {
			if !disabled[event] {
				runs = append(runs, event.String())
			}
		}
		if len(runs) == 0 {
			continue
		}
		objects, err := readManifest(hook.Manifest)
		if err != nil {
			return err
		}
		for _, object := range objects {
			result.Hooks = append(result.Hooks, renderedHook{Object: object, Events: runs})
		}
	}
	return nil
}

func readManifest(content string) ([]*unstructured.Unstructured, error) {
	objects, err := ssautil.ReadObjects(bytes.NewReader([]byte(content)))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if isDeeper(object.Object, maxDepth) {
			return nil, fmt.Errorf("%s is nested deeper than %d levels", ssautil.FmtUnstructured(object), maxDepth)
		}
	}
	return objects, nil
}

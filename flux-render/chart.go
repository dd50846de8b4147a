package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"reflect"
	"strings"

	"github.com/Masterminds/semver/v3"
	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	"github.com/fluxcd/pkg/chartutil"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/ignore"
	"sigs.k8s.io/yaml"
)

// Limits of source-controller.
const (
	maxChartFileBytes = 5 << 20
	maxChartBytes     = 10 << 20
)

var utf8Mark = []byte{0xEF, 0xBB, 0xBF}

// loadChart builds the chart of a HelmRelease as source-controller packs it: a directory or an archive of the source, with
// the values files of its template and local dependencies. Remote dependencies have to be in its directory `charts`.
func loadChart(source *view, template *helmv2.HelmChartTemplate, versionMetadata string) (*chart.Chart, error) {
	dir := path.Clean("/" + template.Spec.Chart)
	loaded, err := readChart(source, dir)
	if err != nil {
		return nil, err
	}
	if err := loaded.Metadata.Validate(); err != nil {
		return nil, err
	}
	if err := overwriteValues(source, loaded, template.Spec); err != nil {
		return nil, err
	}
	if source.IsDir(path.Join(mount, dir)) {
		if err := addDependencies(source, loaded, dir); err != nil {
			return nil, err
		}
	}
	if versionMetadata != "" {
		version, err := semver.NewVersion(loaded.Metadata.Version)
		if err != nil {
			return nil, fmt.Errorf("failed to parse version from chart metadata as SemVer: %w", err)
		}
		changed, err := version.SetMetadata(versionMetadata)
		if err != nil {
			return nil, fmt.Errorf("failed to set SemVer metadata on chart version: %w", err)
		}
		loaded.Metadata.Version = changed.String()
	}
	return loaded, nil
}

// readChart reads the directory or archive at a path of the source, which is joined as Flux joins it: never above the root.
func readChart(source *view, at string) (*chart.Chart, error) {
	at = path.Join(mount, path.Clean("/"+at))
	name, err := toName(at)
	if err != nil {
		return nil, err
	}
	if !source.Exists(at) {
		return nil, fmt.Errorf("no chart found: %w", source.artifact.missing("stat", name))
	}
	if !source.IsDir(at) {
		content, err := source.read(name, maxChartBytes)
		if err != nil {
			return nil, err
		}
		return loader.LoadArchive(bytes.NewReader(content))
	}
	files, err := chartFiles(source, name)
	if err != nil {
		return nil, fmt.Errorf("failed to load files from %s: %w", name, err)
	}
	loaded, err := loader.LoadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("failed to load chart from %s: %w", name, err)
	}
	return loaded, nil
}

// chartFiles returns the files of a directory that .helmignore does not name.
func chartFiles(source *view, dir string) ([]*archive.BufferedFile, error) {
	rules := ignore.Empty()
	if own := path.Join(dir, ignore.HelmIgnore); source.Exists(toPath(own)) {
		content, err := source.read(own, maxChartFileBytes)
		if err != nil {
			return nil, err
		}
		if rules, err = ignore.Parse(bytes.NewReader(content)); err != nil {
			return nil, err
		}
	}
	rules.AddDefaults()
	var files []*archive.BufferedFile
	err := fs.WalkDir(source.artifact, dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		own := strings.TrimPrefix(name, dir+"/")
		switch {
		case rules.Ignore(own, info) && entry.IsDir():
			return fs.SkipDir
		case rules.Ignore(own, info) || entry.IsDir():
			return nil
		}
		content, err := source.read(name, maxChartFileBytes)
		if err != nil {
			return err
		}
		files = append(files, &archive.BufferedFile{Name: own, Data: bytes.TrimPrefix(content, utf8Mark)})
		return nil
	})
	return files, err
}

// overwriteValues replaces the chart's default values by its values files, merged in their order.
func overwriteValues(source *view, loaded *chart.Chart, spec helmv2.HelmChartTemplateSpec) error {
	merged := map[string]any{}
	for _, file := range spec.ValuesFiles {
		at := path.Join(mount, path.Clean("/"+file))
		name, err := toName(at)
		if err != nil {
			return err
		}
		if !source.Exists(at) && spec.IgnoreMissingValuesFiles {
			continue
		}
		if !source.Exists(at) || source.IsDir(at) {
			return fmt.Errorf("no values file found at path '/%s' (reference '%s')", name, file)
		}
		content, err := source.read(name, maxChartFileBytes)
		if err != nil {
			return err
		}
		values := map[string]any{}
		if err := yaml.Unmarshal(content, &values); err != nil {
			return fmt.Errorf("unmarshaling values from '%s' failed: %w", file, err)
		}
		merged = chartutil.MergeMaps(merged, values)
	}
	if len(merged) == 0 || reflect.DeepEqual(loaded.Values, merged) {
		return nil
	}
	packed, err := yaml.Marshal(merged)
	if err != nil {
		return err
	}
	loaded.Values, err = loader.LoadValues(bytes.NewReader(packed))
	return err
}

// addDependencies adds those that are not in the directory `charts`, as source-controller does, but from the source only.
func addDependencies(source *view, loaded *chart.Chart, dir string) error {
	wanted := loaded.Metadata.Dependencies
	if loaded.Lock != nil {
		wanted = loaded.Lock.Dependencies
	}
	if len(loaded.Dependencies()) == len(wanted) {
		return nil
	}
	for _, dependency := range wanted {
		name := dependency.Alias
		if name == "" {
			name = dependency.Name
		}
		if hasDependency(loaded, name) {
			continue
		}
		if dependency.Repository != "" && !strings.HasPrefix(dependency.Repository, "file://") {
			return &unsupportedError{fmt.Sprintf("its dependency %s comes from %s, and previews send no requests: commit it to the chart's directory `charts`", name, dependency.Repository)}
		}
		if err := addLocalDependency(source, loaded, dir, dependency); err != nil {
			return fmt.Errorf("failed to add local dependency '%s': %w", name, err)
		}
	}
	return nil
}

func hasDependency(loaded *chart.Chart, name string) bool {
	for _, existing := range loaded.Dependencies() {
		if existing.Name() == name {
			return true
		}
	}
	return false
}

func addLocalDependency(source *view, loaded *chart.Chart, dir string, dependency *chart.Dependency) error {
	at := path.Join(dir, "charts", dependency.Name)
	if dependency.Repository != "" {
		parsed, err := url.Parse(dependency.Repository)
		if err != nil {
			return fmt.Errorf("failed to parse alleged local chart reference: %w", err)
		}
		at = path.Join(dir, parsed.Host, parsed.Path)
	}
	constraint, err := semver.NewConstraint(dependency.Version)
	if err != nil {
		return fmt.Errorf("invalid version/constraint format '%s': %w", dependency.Version, err)
	}
	found, err := readChart(source, at)
	if err != nil {
		return err
	}
	version, err := semver.NewVersion(found.Metadata.Version)
	if err != nil {
		return err
	}
	if !constraint.Check(version) {
		return fmt.Errorf("can't get a valid version for constraint '%s'", dependency.Version)
	}
	if dependency.Alias != "" {
		found.Metadata.Name = dependency.Alias
	}
	loaded.AddDependency(found)
	return nil
}

// refuseSchemaReferences names a schema that refers to anything but itself: Helm would read files and send requests for it.
func refuseSchemaReferences(loaded *chart.Chart) error {
	if len(loaded.Schema) > 0 {
		var schema any
		if err := json.Unmarshal(loaded.Schema, &schema); err == nil && refersElsewhere(schema) {
			return &unsupportedError{fmt.Sprintf("the values.schema.json of chart %s refers to another file or address, which previews do not read", loaded.Name())}
		}
	}
	for _, dependency := range loaded.Dependencies() {
		if err := refuseSchemaReferences(dependency); err != nil {
			return err
		}
	}
	return nil
}

func refersElsewhere(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			text, isText := field.(string)
			switch name {
			case "$ref", "$dynamicRef", "$recursiveRef", "$schema":
				known := strings.HasPrefix(text, "http://json-schema.org/") || strings.HasPrefix(text, "https://json-schema.org/")
				if isText && text != "" && !strings.HasPrefix(text, "#") && !known {
					return true
				}
			}
			if refersElsewhere(field) {
				return true
			}
		}
	case []any:
		for _, item := range value {
			if refersElsewhere(item) {
				return true
			}
		}
	}
	return false
}

// unsupportedError is a limit of previews, not a fault of the chart.
type unsupportedError struct{ reason string }

func (e *unsupportedError) Error() string { return e.reason }

func isUnsupported(err error) bool {
	var unsupported *unsupportedError
	return errors.As(err, &unsupported)
}

func capabilitiesOf(item releaseToRender) (*common.Capabilities, error) {
	capabilities := common.DefaultCapabilities.Copy()
	if item.KubeVersion != "" {
		version, err := common.ParseKubeVersion(item.KubeVersion)
		if err != nil {
			return nil, fmt.Errorf("the version of the cluster cannot be parsed: %w", err)
		}
		capabilities.KubeVersion = *version
	}
	if len(item.APIVersions) > 0 {
		capabilities.APIVersions = common.VersionSet(item.APIVersions)
	}
	return capabilities, nil
}

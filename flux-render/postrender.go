package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"sort"
	"strings"

	helmv2 "github.com/fluxcd/helm-controller/api/v2"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/kustomize/api/builtins"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	kustypes "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/kio"
)

// postRender does to a stream of manifests what helm-controller's post-renderers do, in their order: the patches and images of
// the HelmRelease, its common metadata, and the labels that name it.
func postRender(release *helmv2.HelmRelease, manifests []byte) ([]byte, error) {
	var err error
	for _, renderer := range release.Spec.PostRenderers {
		if renderer.Kustomize == nil {
			continue
		}
		if manifests, err = patchManifests(renderer.Kustomize, manifests); err != nil {
			return nil, err
		}
	}
	if common := release.Spec.CommonMetadata; common != nil {
		if manifests, err = transform(manifests, labels(common.Labels), annotations(common.Annotations)); err != nil {
			return nil, err
		}
	}
	return transform(manifests, labels(map[string]string{
		helmv2.GroupVersion.Group + "/name":      release.Name,
		helmv2.GroupVersion.Group + "/namespace": release.Namespace,
	}))
}

// patchManifests runs kustomize in memory: no path leads out of it.
func patchManifests(kustomize *helmv2.Kustomize, manifests []byte) ([]byte, error) {
	const input = "helm-output.yaml"
	file := kustypes.Kustomization{Resources: []string{input}}
	file.APIVersion = kustypes.KustomizationVersion
	file.Kind = kustypes.KustomizationKind
	for _, image := range kustomize.Images {
		file.Images = append(file.Images, kustypes.Image{Name: image.Name, NewName: image.NewName, NewTag: image.NewTag, Digest: image.Digest})
	}
	for _, patch := range kustomize.Patches {
		converted := kustypes.Patch{Patch: patch.Patch}
		if target := patch.Target; target != nil {
			converted.Target = &kustypes.Selector{LabelSelector: target.LabelSelector, AnnotationSelector: target.AnnotationSelector}
			converted.Target.Group, converted.Target.Version, converted.Target.Kind = target.Group, target.Version, target.Kind
			converted.Target.Name, converted.Target.Namespace = target.Name, target.Namespace
		}
		file.Patches = append(file.Patches, converted)
	}
	content, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	files := filesys.MakeFsInMemory()
	if err := files.WriteFile(input, manifests); err != nil {
		return nil, err
	}
	if err := files.WriteFile("kustomization.yaml", content); err != nil {
		return nil, err
	}
	built, err := krusty.MakeKustomizer(&krusty.Options{
		LoadRestrictions: kustypes.LoadRestrictionsNone,
		PluginConfig:     kustypes.DisabledPluginConfig(),
	}).Run(files, ".")
	if err != nil {
		return nil, err
	}
	return built.AsYaml()
}

type transformer interface{ Transform(resmap.ResMap) error }

func labels(all map[string]string) transformer {
	return &builtins.LabelTransformerPlugin{Labels: all, FieldSpecs: []kustypes.FieldSpec{{Path: "metadata/labels", CreateIfNotPresent: true}}}
}

func annotations(all map[string]string) transformer {
	return &builtins.AnnotationsTransformerPlugin{Annotations: all, FieldSpecs: []kustypes.FieldSpec{{Path: "metadata/annotations", CreateIfNotPresent: true}}}
}

func transform(manifests []byte, transformers ...transformer) ([]byte, error) {
	factory := resmap.NewFactory(provider.NewDefaultDepProvider().GetResourceFactory())
	all, err := factory.NewResMapFromBytes(manifests)
	if err != nil {
		return nil, err
	}
	for _, one := range transformers {
		if err := one.Transform(all); err != nil {
			return nil, err
		}
	}
	return all.AsYaml()
}

// postRenderFiles post-renders what the templates made, in one stream, or hooks apart from all else or not at all.
func postRenderFiles(release *helmv2.HelmRelease, files map[string]string) (map[string]string, error) {
	switch strategy := release.Spec.PostRenderStrategy; strategy {
	case "", helmv2.PostRenderStrategyCombined:
		stream, err := toStream(files)
		if err != nil {
			return nil, fmt.Errorf("error merging manifests: %w", err)
		}
		rendered, err := postRender(release, stream)
		if err != nil {
			return nil, fmt.Errorf("error while running post render on files: %w", err)
		}
		return map[string]string{"manifests.yaml": string(rendered)}, nil
	case helmv2.PostRenderStrategyNoHooks, helmv2.PostRenderStrategySeparate:
		hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
		if err != nil {
			return nil, err
		}
		var own, others []string
		for _, hook := range hooks {
			own = append(own, hook.Manifest)
		}
		for _, manifest := range manifests {
			others = append(others, manifest.Content)
		}
		groups := map[string][]string{"hooks": own, "manifests": others}
		result := map[string]string{}
		for name, documents := range groups {
			text := strings.Join(documents, "\n---\n")
			if len(documents) > 0 && (name == "manifests" || strategy == helmv2.PostRenderStrategySeparate) {
				stream, err := toStream(map[string]string{name: text})
				if err != nil {
					return nil, fmt.Errorf("error merging %s: %w", name, err)
				}
				rendered, err := postRender(release, stream)
				if err != nil {
					return nil, fmt.Errorf("error while running post render on %s: %w", name, err)
				}
				text = string(rendered)
			}
			result[name+".yaml"] = text
		}
		return result, nil
	default:
		return nil, fmt.Errorf("unknown post-render strategy: '%s'", strategy)
	}
}

// toStream joins the documents of all files, as Helm hands them to a post-renderer.
func toStream(files map[string]string) ([]byte, error) {
	var stream bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		if strings.HasPrefix(path.Base(name), "_") || strings.TrimSpace(content) == "" {
			continue
		}
		documents := releaseutil.SplitManifests(content)
		keys := slices.Collect(maps.Keys(documents))
		sort.Sort(releaseutil.BySplitManifestsOrder(keys))
		for _, key := range keys {
			parsed, err := kio.ParseAll(documents[key])
			if err != nil {
				return nil, fmt.Errorf("parsing %s: %w", name, err)
			}
			if len(parsed) == 0 {
				continue
			}
			text, err := kio.StringAll(parsed)
			if err != nil {
				return nil, fmt.Errorf("writing %s: %w", name, err)
			}
			stream.WriteString("---\n" + text)
		}
	}
	return stream.Bytes(), nil
}

/** What the projects of an episode render at each commit, according to the model. */
import type { Expected, Push } from "./history.ts";
import type { DeploymentPlan } from "./projects.ts";
import { hashOf, RenderError, renderProject, type Tree } from "./render.ts";
import type { Repository } from "./repository.ts";

export interface Expectations {
  /** The files at the head of the repository with this URL; throws if it has no branch. */
  treeOf(url: string): Tree;
  atHead(deployment: DeploymentPlan): Expected;
  /** Per pushed commit of the deployment's repository. */
  atPushes(deployment: DeploymentPlan, pushes: readonly Push[]): ReadonlyMap<string, Expected>;
}

export function createExpectations(
  repositories: ReadonlyMap<string, Repository>,
  urlOf: (repo: string) => string,
): Expectations {
  return {
    treeOf,
    atHead: (deployment) => expect(deployment),
    atPushes: (deployment, pushes) => new Map(pushes.flatMap((push) => renderedAt(deployment, push))),
  };

  function renderedAt(deployment: DeploymentPlan, { repo, commit }: Push): [string, Expected][] {
    if (repo !== deployment.repo || commit === undefined) return [];
    return [[commit, expect(deployment, repositories.get(repo)?.treeAt(commit))]];
  }

  function treeOf(url: string): Tree {
    const found = [...repositories.values()].find((one) => one.url === url);
    if (found?.head() === undefined) throw new RenderError(`${url} has no branch`);
    return found.tree();
  }

  function expect({ repo, path }: DeploymentPlan, tree?: Tree): Expected {
    try {
      const { objects } = renderProject({ tree: tree ?? treeOf(urlOf(repo)), path, included: treeOf });
      return { objects: new Map(objects.map(({ metadata, data }) => [metadata.name, data])), hash: hashOf(objects) };
    } catch (error) {
      if (error instanceof RenderError) return { error: error.message };
      throw error;
    }
  }
}

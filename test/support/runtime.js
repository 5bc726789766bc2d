/**
 * Jest's runtime, which here reads a package and compiles a module once in a process. Jest's own does so again
 * for each test file that loads it. V8 then compiles each function again, too, at its first call.
 */
const { Script } = require('node:vm');
const { default: Runtime } = require('jest-runtime');

/** Texts of packages, by path: none changes while Jest runs. */
const packages = new Map();
/** By the parameters and the path of a module. */
const compiled = new Map();

function scriptOf(source, filename, parameters) {
  const key = `${parameters}\n${filename}`;
  const found = compiled.get(key);
  // In watch mode a file changes.
  if (found?.source === source) return found.script;
  const begin = `(function (${parameters}) {`;
  const script = new Script(`${begin}${source}\n})`, { filename, columnOffset: -begin.length });
  compiled.set(key, { source, script });
  return script;
}

module.exports = class extends Runtime {
  constructor(...args) {
    super(...args);
    this.readPackagesOnce();
    this.compileOnce();
  }

  readPackagesOnce() {
    const { fileCache } = this;
    const read = fileCache.readFile.bind(fileCache);
    fileCache.readFile = (path) => {
      if (!path.includes('/node_modules/')) return read(path);
      let text = packages.get(path);
      if (text === undefined) {
        text = read(path);
        packages.set(path, text);
      }
      return text;
    };
  }

  compileOnce() {
    const { executor } = this;
    const compileByJest = executor.compile.bind(executor);
    executor.compile = (source, filename) => {
      const context = executor.environment.getVmContext();
      if (context === null) return null;
      let script;
      try {
        script = scriptOf(source, filename, executor.injectedModuleParameters);
      } catch {
        // Jest explains the error.
        return compileByJest(source, filename);
      }
      return script.runInContext(context);
    };
  }
};

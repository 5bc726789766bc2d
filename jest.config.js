/** One project a layer: `npx jest --selectProjects unit`. The layers and their minutes are listed in test/README.md. */
const layer = (name, extra = {}) => ({
  displayName: name,
  testMatch: [`<rootDir>/test/${name}/**/*.test.ts`],
  testEnvironment: 'node',
  transform: {
    '^.+\\.ts$': ['@swc/jest', { jsc: { target: 'es2022', parser: { syntax: 'typescript' } }, module: { type: 'commonjs' } }],
  },
  ...extra,
});

module.exports = {
  projects: [layer('unit')],
};

#!/usr/bin/env node
console.log('promo-intake');

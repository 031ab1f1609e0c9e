// Made by tools/minimax.py; do not edit. Polynomial coefficients of scalar_math.cpp, lowest power first. The comment is the
// largest relative error of the polynomial in the function it serves, before rounding of the arithmetic.
#pragma once

namespace escapement::scalar {

inline constexpr float kExpF32[] = {  // 2^-27.9
    0x1.fffffc0000000p-2f, 0x1.5554900000000p-3f, 0x1.5558fa0000000p-5f, 0x1.123b860000000p-7f,
    0x1.6a22ac0000000p-10f,
};
inline constexpr double kExpF64[] = {  // 2^-57.0
    0x1.000000000000ap-1, 0x1.55555555554f7p-3, 0x1.55555555506c8p-5, 0x1.1111111128397p-7,
    0x1.6c16c18490916p-10, 0x1.a01a01287d691p-13, 0x1.a01998e6d3fc5p-16, 0x1.71df27b02cc0ap-19,
    0x1.28ae8e63cc320p-22, 0x1.ad7e8d9ff2c2ap-26,
};
inline constexpr float kExpm1F32[] = {  // 2^-28.8
    0x1.0000000000000p-1f, 0x1.5555540000000p-3f, 0x1.5554b00000000p-5f, 0x1.11118a0000000p-7f,
    0x1.6d73e20000000p-10f, 0x1.a032ea0000000p-13f,
};
inline constexpr double kExpm1F64[] = {  // 2^-60.3
    0x1.0000000000000p-1, 0x1.5555555555559p-3, 0x1.555555555553ep-5, 0x1.111111110f647p-7,
    0x1.6c16c16c1f262p-10, 0x1.a01a01b01612ep-13, 0x1.a01a017b82af7p-16, 0x1.71ddf7c5ca1d0p-19,
    0x1.27e536133304ep-22, 0x1.af5fd45f35a8dp-26, 0x1.1ee9ab89aece6p-29,
};
inline constexpr float kExp2F32[] = {  // 2^-27.9
    0x1.ebfbe00000000p-3f, 0x1.c6af860000000p-5f, 0x1.3b29d20000000p-7f, 0x1.5f05a60000000p-10f,
    0x1.44788e0000000p-13f,
};
inline constexpr double kExp2F64[] = {  // 2^-57.3
    0x1.ebfbdff82c5a5p-3, 0x1.c6b08d704a0cfp-5, 0x1.3b2ab6fb9ffe6p-7, 0x1.5d87fe78a1be5p-10,
    0x1.4309130f17c74p-13, 0x1.ffcbfc796d3b1p-17, 0x1.62bfc70051f6ap-20, 0x1.b524d26a6ccc4p-24,
    0x1.e61c58e0122bdp-28, 0x1.ea12d5cf8ca31p-32,
};
inline constexpr double kExp2ForPowF32[] = {  // 2^-34.3
    0x1.ebfbe07886c41p-3, 0x1.c6b08dca1fe32p-5, 0x1.3b29f289688f5p-7, 0x1.5d873f772888bp-10,
    0x1.445d65005b9ffp-13, 0x1.00e57c53265a3p-16,
};
inline constexpr float kLogF32[] = {  // 2^-35.2
    0x1.5555540000000p-1f, 0x1.999c280000000p-2f, 0x1.23d3120000000p-2f, 0x1.f161ca0000000p-3f,
};
inline constexpr double kLogF64[] = {  // 2^-59.5
    0x1.5555555555592p-1, 0x1.999999997ff4bp-2, 0x1.24924941dd077p-2, 0x1.c71c5218895bep-3,
    0x1.74663bfa3a635p-3, 0x1.39a20271658edp-3, 0x1.2f02b2d733b6cp-3,
};
inline constexpr double kLog2ForPowF32[] = {  // 2^-50.8
    0x1.71547652b82ffp+1, 0x1.ec709dc39cd0bp-1, 0x1.2776c51674348p-1, 0x1.a61756a7116f6p-2,
    0x1.484fa198bcbf2p-2, 0x1.0bb8da1505f12p-2, 0x1.f16db9d123757p-3,
};
inline constexpr double kLogTailF64[] = {  // 2^-76.4
    0x1.999999999999ap-2, 0x1.2492492492363p-2, 0x1.c71c71c747ea3p-3, 0x1.745d172bc89f7p-3,
    0x1.3b13ba5a9700ep-3, 0x1.110f1c342027bp-3, 0x1.e2658141c62bep-4, 0x1.a5088815d5c9cp-4,
    0x1.eca68da1c30f3p-4,
};
inline constexpr float kTanhF32[] = {  // 2^-28.8
    -0x1.5555480000000p-2f, 0x1.110d780000000p-3f, -0x1.b9744e0000000p-5f, 0x1.5f32820000000p-6f,
    -0x1.f3e55e0000000p-8f, 0x1.c243220000000p-10f,
};
inline constexpr double kTanhF64[] = {  // 2^-59.2
    -0x1.5555555555549p-2, 0x1.1111111110385p-3, -0x1.ba1ba1b974d34p-5, 0x1.664f486258050p-6,
    -0x1.226e31a4913cep-7, 0x1.d6d3436461484p-9, -0x1.7d9c440a7fdf6p-10, 0x1.3517d3afae0d1p-11,
    -0x1.f243fb17eb3fap-13, 0x1.87b9091e49ebcp-14, -0x1.198c047164e85p-15, 0x1.3d596ab11c88ap-17,
    -0x1.8c2b82246ffd3p-20,
};
inline constexpr float kErfSmallF32[] = {  // 2^-26.1
    0x1.06eba60000000p-3f, -0x1.8126ee0000000p-2f, 0x1.ce1c200000000p-4f, -0x1.b6a8fe0000000p-6f,
    0x1.480a420000000p-8f, -0x1.3dea780000000p-11f,
};
inline constexpr double kErfSmallF64[] = {  // 2^-55.7
    0x1.06eba8214db69p-3, -0x1.812746b037a25p-2, 0x1.ce2f21a0458eap-4, -0x1.b82ce313557eep-6,
    0x1.565bcd2c8b1eep-8, -0x1.c02db93c90d5ap-11, 0x1.f9a3bac643506p-14, -0x1.f4dd18615b304p-17,
    0x1.ba6bd2422a849p-20, -0x1.63b05c93c1f32p-23, 0x1.13fe8ee0e3628p-26, -0x1.cb74db1b72d06p-30,
    0x1.46acfee375ddfp-33,
};
inline constexpr float kErfLargeF32[] = {  // 2^-28.8
    -0x1.076b2e0000000p-3f, -0x1.4540ac0000000p-1f, -0x1.b267b60000000p-4f, 0x1.82b9e60000000p-6f,
    -0x1.d37c1a0000000p-9f, 0x1.3eabcc0000000p-12f, -0x1.38aece0000000p-17f,
};
inline constexpr double kErfLargeF64[] = {  // 2^-60.9
    -0x1.06ebaee249fbep-3, -0x1.45f2f3988d520p-1, -0x1.a4f8200860e53p-4, 0x1.399243c7f7ac2p-6,
    0x1.82c4dc8da2731p-13, -0x1.b11dd2bb597e3p-10, 0x1.159b2fbb26e83p-11, 0x1.532de4d65427bp-15,
    -0x1.01887fb1c794ep-13, 0x1.2a62c8cc0d6b1p-14, -0x1.c5ad14c469f90p-16, 0x1.0443f1c26cd55p-17,
    -0x1.d4eb9666a0ef2p-20, 0x1.4e6b0b4ba34e1p-22, -0x1.7694ea360fb7cp-25, 0x1.4287f813bc61dp-28,
    -0x1.9b4e0e0ce2019p-32, 0x1.6c81aedbfaea1p-36, -0x1.8e98d0d277e70p-41, 0x1.91c2e1eca5a18p-47,
};
inline constexpr float kNormalTailF32[] = {  // 2^-15.0
    -0x1.0002da0000000p+0f, -0x1.2685820000000p+0f, 0x1.0b049e0000000p-2f, -0x1.a7edea0000000p-5f,
    0x1.e530f40000000p-8f, -0x1.52bdb20000000p-11f, 0x1.a67d2e0000000p-16f,
};
inline constexpr double kErfcForF32[] = {  // 2^-32.4
    -0x1.43f833b2b660fp+0, 0x1.ffe2e89328b91p-1, 0x1.83a96369ed8a6p-2, 0x1.95abe701844d9p-5,
    0x1.f8407df7e9bf5p-4, -0x1.08937c171f4d9p+0, 0x1.49ad5d5a90e2ep+1, -0x1.6735ccaf73fb6p+2,
    0x1.0c1f254e8a736p+3, -0x1.f05fe5a6567f1p+2, 0x1.15522da57075fp+2, -0x1.5ab3df827a620p+0,
    0x1.7764454b3f68cp-3,
};
inline constexpr double kAtanForF32[] = {  // 2^-31.3
    0x1.fffffffccc356p-1, -0x1.55554f04af2abp-2, 0x1.9997869374a0bp-3, -0x1.246fe7fcb706cp-3,
    0x1.c4cab2cf3be63p-4, -0x1.68655a7066e9dp-4, 0x1.13169ac50273ap-4, -0x1.6b5e3eca2be9fp-5,
    0x1.6cee2d0690e19p-6, -0x1.d7cc3019df4a3p-8, 0x1.1e034d92fd0adp-10,
};
inline constexpr double kAsinForF32[] = {  // 2^-31.9
    0x1.0000000119576p+0, 0x1.5555483d9e57dp-3, 0x1.33398d139b372p-4, 0x1.6c912110ec49dp-5,
    0x1.0559e7338e130p-5, 0x1.cf04befa7272fp-7, 0x1.3677ce7225ca8p-5,
};
inline constexpr float kExp2ForHalfF32[] = {  // 2^-18.4
    0x1.62e12c0000000p-1f, 0x1.ec03740000000p-3f, 0x1.c9fc340000000p-5f, 0x1.3a03b20000000p-7f,
};
inline constexpr double kHalfTurnSinForF32[] = {  // 2^-30.2
    0x1.921fb53e96f72p+1, -0x1.4abbccd1254ecp+2, 0x1.466b7bd9083adp+1, -0x1.32c868a52ff0dp-1,
    0x1.4f2365f9541e3p-4, -0x1.ba14ffa0c54bcp-8,
};
inline constexpr double kSinF64[] = {  // 2^-57.9
    -0x1.5555555555548p-3, 0x1.111111110f72fp-7, -0x1.a01a019be8f8dp-13, 0x1.71de355506c36p-19,
    -0x1.ae5e4b67dcd52p-26, 0x1.5d8b4dc89567ep-33,
};
inline constexpr double kCosF64[] = {  // 2^-63.9
    0x1.555555555554bp-5, -0x1.6c16c16c15005p-10, 0x1.a01a019c8c7f3p-16, -0x1.27e4f7ef1044ep-22,
    0x1.1ee9d9c99a3f9p-29, -0x1.8fa555a72e1b9p-37,
};
inline constexpr double kNormalTailEnd = 5.65;

// Of the normal distribution function, up to 5.55; absolute error 2^-26.9.
inline constexpr double kNormalEnd = 5.55;
inline constexpr float kNormalOverF32[] = {
    0x1.9884500000000p-2f, 0x1.176c180000000p-5f, 0x1.337b9e0000000p-8f, 0x1.672ffc0000000p-13f,
    0x1.aa52f80000000p-18f, 0x1.81902e0000000p-26f,
};
inline constexpr float kNormalUnderF32[] = {
    0x1.0000000000000p+0f, 0x1.02377e0000000p-2f, 0x1.d7b0ae0000000p-6f, 0x1.f1a2fe0000000p-10f,
    0x1.37d7540000000p-14f, 0x1.3f11060000000p-20f,
};

// 1/(2 pi) in base 2^53, and its bits below 2^0, 2^-27, 2^-54, 2^-81 as pairs.
inline constexpr double kInverseTwoPiDigits[] = {
    0x1.45f306dc9c880p+50, 0x1.529fc2757d1f5p+52, 0x1.a6ee06db14accp+50, 0x1.3c439041fe514p+50,
    0x1.1d5ef5de2b0dbp+52, 0x1.246e3a424dd2ep+52, 0x1.924bba8274600p+43, 0x1.21cfe1deb1cb0p+50,
    0x1.29a73ee88235ep+51, 0x1.52ebb4484e99cp+52, 0x1.c09ad17df904ep+51, 0x1.91d639835339cp+50,
    0x1.a4e422fc5defcp+52, 0x1.283b1ff897ffdp+52, 0x1.c0b301fde5e23p+52, 0x1.6b414da3eda68p+49,
    0x1.3f6793e584dbap+52, 0x1.e8c7ecd3cbfd4p+51, 0x1.6ba93dd63f5f0p+50, 0x1.7c5ecf41ce7dep+52,
    0x1.4a525d4d7f6bcp+50, 0x1.b11f8d5d08560p+52, 0x1.98237e3db5d5cp+50, 0x1.c33ef0826bd0dp+52,
};
inline constexpr double kInverseTwoPiWindows[][2] = {
    {0x1.45f306dc9c883p-3, -0x1.6b01ec5417056p-57},
    {0x1.b9391054a7f0ap-28, -0x1.505c1596447e5p-83},
    {0x1.4a7f09d5f47d5p-56, -0x1.6447e493ad4cep-111},
    {0x1.57d1f534ddc0ep-82, -0x1.275a99b0ef1bfp-136},
};

}  // namespace escapement::scalar
